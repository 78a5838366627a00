package main

import (
	"fmt"
	"maps"
	"strings"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A case before it is run.
type given struct {
	name     string
	settings settings
	event    eventv1.Event
	answers  []answer
}

type group struct {
	kind  string
	cases []given
}

const (
	commit = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738"
	other  = "0123456789abcdef0123456789abcdef01234567"
	status = "kustomization/apps/5d1a9c5e"
	uid    = "5d1a9c5e-0b6f-4c5b-8e7e-000000000001"
)

func event(kind, severity, reason, message string, metadata map[string]string) eventv1.Event {
	return eventv1.Event{
		InvolvedObject: corev1.ObjectReference{
			Kind: kind, Namespace: "team-a", Name: "apps", UID: types.UID("5d1a9c5e-0b6f-4c5b-8e7e-000000000003"),
			APIVersion: "kustomize.toolkit.fluxcd.io/v1", ResourceVersion: "4711",
		},
		Severity: severity, Timestamp: metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), Message: message, Reason: reason,
		Metadata: metadata, ReportingController: "kustomize-controller", ReportingInstance: "kustomize-controller-7b4d",
	}
}

func revision(more ...string) map[string]string {
	metadata := map[string]string{"revision": "main@sha1:" + commit}
	for i := 0; i+1 < len(more); i += 2 {
		metadata[more[i]] = more[i+1]
	}
	return metadata
}

type namedEvent struct {
	name  string
	event eventv1.Event
}

// The events that every provider type gets.
func events() []namedEvent {
	special := "<b>&\"quoted\"</b> 'it' \\ back\u2028line \u00fc\U0001F600 _*[]()~`>#+-=|{}.! \t 50% $x\n\nend\n"
	list := []namedEvent{
		{"info", event("Kustomization", "info", "ReconciliationSucceeded", "Reconciliation finished in 1.2s, next run in 10m0s", revision("token", "a-b"))},
		{"error", event("HelmRelease", "error", "InstallFailed", "Helm install failed:\ntimed out\n  waiting for Deployment/team-a/apps", revision("summary", "production: eu-1"))},
		{"progressing", event("Kustomization", "info", "Progressing", "Health check passed", revision())},
		{"error-progressing", event("Kustomization", "error", "Progressing", "Health check failed", revision())},
		{"trace", event("Kustomization", "trace", "ReconciliationSucceeded", "No changes", revision())},
		{"special", event("Kustomization", "error", "HTTP2Failed-now", special, map[string]string{
			"revision": "feature/x@sha1:" + commit, "a:b": "c: d <e>", "k_*": "v.[1](2)!", "summary": "s & t", "empty": ""})},
		{"no-revision", event("GitRepository", "info", "NewArtifact", "stored artifact", nil)},
		{"long", event("OCIRepository", "info", "NewArtifact", strings.Repeat("0123456789 äöü ", 100), map[string]string{
			"revision": "v1@sha256:" + strings.Repeat("ab", 32), "oci-digest": "sha256:" + strings.Repeat("cd", 32), "app-version": "1.2.3"})},
		{"commit", event("Kustomization", "info", "ReconciliationSucceeded", "ok", revision("commit", other, "change_request", "42"))},
		{"origin-revision", event("HelmRelease", "error", "UpgradeFailed", "no", map[string]string{
			"originRevision": "main/" + other, "revision": "v1@sha256:" + strings.Repeat("ab", 32), "change_request": "42"})},
		{"helm-repository", event("HelmRepository", "info", "NewArtifact", "stored artifact", map[string]string{"revision": "sha256:" + strings.Repeat("ab", 32)})},
		{"change-request", event("GitRepository", "info", "Succeeded", "ok", revision("change_request", "42"))},
		{"bad-change-request", event("Kustomization", "info", "Succeeded", "ok", revision("change_request", "4x"))},
		{"bare-commit", event("Kustomization", "info", "Succeeded", "ok", map[string]string{"revision": other})},
		{"short-commit", event("Kustomization", "info", "Succeeded", "ok", map[string]string{"revision": "main@sha1:0123456"})},
	}
	return list
}

func pick(name string) eventv1.Event {
	for _, named := range events() {
		if named.name == name {
			return named.event
		}
	}
	panic(name)
}

// Cases of every event with one setting, of failing answers, and of other settings.
func cases(usual settings, extra ...given) []given {
	return answered(usual, nil, extra...)
}

// Cases like those of cases, with other answers to the usual events.
func answered(usual settings, answers []answer, extra ...given) []given {
	var list []given
	for _, named := range events() {
		list = append(list, given{name: named.name, settings: usual, event: named.event, answers: answers})
	}
	for _, code := range []int{400, 401, 404, 429, 500, 501, 503} {
		answers := []answer{{Status: code, Body: `{"message":"refused"}`}}
		list = append(list, given{fmt.Sprintf("answer-%d", code), usual, pick("change" + "-request"), answers})
	}
	return append(list, extra...)
}

func with(usual settings, change func(*settings)) settings {
	usual.Secret = maps.Clone(usual.Secret)
	change(&usual)
	return usual
}

func ok(bodies ...string) []answer {
	var list []answer
	for _, body := range bodies {
		list = append(list, answer{Status: 200, Body: body})
	}
	return append(list, answer{Status: 201, Body: "{}"})
}

func login(name, value string) map[string]string { return map[string]string{name: value} }

// Cases of a commit status: lists that have the same status, another one, and none.
func statuses(usual settings, none answer, same, different string) []given {
	empty := []answer{none, {Status: 201, Body: "{}"}}
	return answered(usual, empty,
		given{"same-status", usual, pick("info"), ok(same)},
		given{"other-status", usual, pick("info"), ok(different)},
		given{"no-content", usual, pick("error"), []answer{{Status: 200, Body: ""}, {Status: 201, Body: "{}"}}},
		given{"not-json", usual, pick("info"), ok("<html>")},
		given{"create-refused", usual, pick("info"), []answer{none, {Status: 422, Body: `{"message":"x"}`}}},
		given{"no-token", with(usual, func(s *settings) { s.Secret = nil }), pick("info"), nil},
		given{"password", with(usual, func(s *settings) { s.Secret = map[string]string{"username": "u", "password": "p:w"} }), pick("info"), empty},
		given{"username-only", with(usual, func(s *settings) { s.Secret["username"] = "u" }), pick("info"), empty},
		given{"no-status-id", with(usual, func(s *settings) { s.CommitStatus = "" }), pick("info"), nil},
		given{"bad-address", with(usual, func(s *settings) { s.Address = "https://git.example.com/one" }), pick("info"), nil},
		given{"nested-address", with(usual, func(s *settings) { s.Address = "https://git.example.com/one/two/three.git" }), pick("info"), empty},
		given{"ssh-address", with(usual, func(s *settings) { s.Address = "ssh://git@git.example.com/one/two" }), pick("info"), empty},
		given{"scp-address", with(usual, func(s *settings) { s.Address = "git@git.example.com:one/two.git" }), pick("info"), empty},
		given{"other-address", with(usual, func(s *settings) { s.Address = "https://u:p@git.example.com/o.n-e/t_w%20o.git?x=y" }), pick("info"), empty},
	)
}

func comments(usual settings, user, mine, theirs string) []given {
	return answered(usual, ok(user, "[]"),
		given{"create", usual, pick("change-request"), ok(user, theirs)},
		given{"edit", usual, pick("change-request"), ok(user, mine)},
		given{"create-error", usual, pick("origin-revision"), ok(user, "[]")},
		given{"list-refused", usual, pick("change-request"), []answer{{Status: 200, Body: user}, {Status: 403, Body: "{}"}}},
		given{"create-refused", usual, pick("change-request"), []answer{{Status: 200, Body: user}, {Status: 200, Body: "[]"}, {Status: 422, Body: "{}"}}},
		given{"special-body", usual, func() eventv1.Event { e := pick("special"); e.Metadata["change_request"] = "7"; return e }(), ok(user, "[]")},
		given{"no-token", with(usual, func(s *settings) { s.Secret = nil }), pick("change-request"), nil},
	)
}

func marker(prefix string) string {
	return "<!-- " + prefix + ":" + uid + "/GitRepository/team-a/apps -->"
}

func groups() []group {
	hook := settings{Address: "https://hooks.example.com/services/T0/B0?x=y", Channel: "alerts"}
	named := with(hook, func(s *settings) { s.Username = "flux" })
	badAddress := func(s settings) given {
		return given{"bad-address", with(s, func(s *settings) { s.Address = "hooks.example.com/x" }), pick("info"), nil}
	}
	secretAddress := func(s settings) given {
		return given{"secret-address", with(s, func(s *settings) {
			s.Secret = maps.Clone(s.Secret)
			if s.Secret == nil {
				s.Secret = map[string]string{}
			}
			s.Secret["address"] = " https://secret.example.com/hook\n"
		}), pick("info"), nil}
	}
	tokenHook := with(hook, func(s *settings) { s.Secret = login("token", "t0ken") })
	git := func(address string) settings {
		return settings{Address: address, CommitStatus: status, Secret: login("token", "t0ken")}
	}
	basic := map[string]string{"username": "robot@example.com", "password": "pass:word"}
	headers := "X-One: two\nx-number: 3\ngotk-component: mine\nContent-Type: text/x\n"
	slackAPI := settings{Address: "https://slack.com/api/chat.postMessage", Channel: "C01", Secret: login("token", "xoxb-1")}
	gitHub, gitLab, gitea := git("https://github.com/one/two"), git("https://gitlab.example.com/one/two"), git("https://gitea.example.com/one/two.git")
	gitHubStatus := func(state, description, context string) string {
		return fmt.Sprintf(`[{"context":"x","state":"failure","description":"y"},{"state":"success","description":"z"},{"context":%q,"state":%q,"description":%q},{"context":%q,"state":"error","description":"old"}]`, context, state, description, status)
	}
	gitLabStatus := func(state, sha string) string {
		return fmt.Sprintf(`[{"sha":%q,"status":%q,"name":%q,"description":"reconciliation succeeded"}]`, sha, state, status)
	}
	comment := func(s settings) settings { return with(s, func(s *settings) { s.CommitStatus = "" }) }
	gitHubComments := func(login, prefix string) string {
		return fmt.Sprintf(`[{"id":7,"user":{"login":"someone"},"body":%q},{"id":9,"user":{"login":%q},"body":"a %s b"}]`, marker(prefix), login, marker(prefix))
	}
	bitbucket := git("https://bitbucket.org/one/two")
	bitbucket.Secret = login("token", "user:pass")
	server := git("https://bb.example.com/context/scm/one/two.git")
	azure := git("https://dev.azure.com/org/project/_git/repo")
	azureStatus := func(state, genre string) string {
		return fmt.Sprintf(`{"count":1,"value":[{"state":%q,"description":"reconciliation succeeded","context":{"name":%q,"genre":%q}}]}`, state, status, genre)
	}
	bitbucketStatus := func(state, description string) string {
		return fmt.Sprintf(`{"key":"db51b8b1a1","state":%q,"description":%q}`, state, description)
	}
	serverStatus := func(description string) string {
		return fmt.Sprintf(`{"key":"KEY","state":"SUCCESSFUL","description":%q,"name":"kustomization/apps [reconciliation succeeded]"}`, description)
	}
	list, missing := answer{Status: 200, Body: "[]"}, answer{Status: 404, Body: `{"error":{"message":"none"}}`}
	sentry := settings{Address: "https://public@sentry.example.com/42", Channel: "production"}
	matrix := settings{Address: "https://matrix.example.com", Channel: "!room:example.com", Secret: login("token", "syt_1")}
	nats := settings{Address: "nats://nats.example.com:4222", Channel: "flux.events"}
	otel := settings{Address: "https://otel.example.com/v1/traces"}

	app := func(s settings, pairs ...string) settings {
		return with(s, func(s *settings) {
			s.Secret = map[string]string{"githubAppID": "12", "githubAppPrivateKey": appKey}
			for i := 0; i+1 < len(pairs); i += 2 {
				s.Secret[pairs[i]] = pairs[i+1]
			}
		})
	}
	installation, appToken := []string{"githubAppInstallationID", "34"}, `{"token":"ghs_1","expires_at":"2030-01-01T00:00:00Z"}`
	enterprise := func(s settings) settings {
		return with(s, func(s *settings) { s.Address = "https://ghe.example.com/one/two" })
	}

	return []group{
		{"generic", cases(hook, badAddress(hook), secretAddress(hook),
			given{"headers", with(hook, func(s *settings) { s.Secret = map[string]string{"headers": headers, "token": "unused"} }), pick("info"), nil},
			given{"bad-headers", with(hook, func(s *settings) { s.Secret = login("headers", "- a") }), pick("info"), nil})},
		{"generic-hmac", cases(tokenHook, badAddress(tokenHook), secretAddress(tokenHook),
			given{"no-token", hook, pick("info"), nil},
			given{"headers", with(tokenHook, func(s *settings) { s.Secret["headers"] = headers + "X-Signature: forged\n" }), pick("special"), nil},
			given{"token-with-newline", with(tokenHook, func(s *settings) { s.Secret["token"] = "t0ken\n" }), pick("info"), nil})},
		{"slack", cases(named, badAddress(hook), secretAddress(hook),
			given{"no-username", hook, pick("info"), nil},
			given{"no-channel", with(hook, func(s *settings) { s.Channel = "" }), pick("info"), nil},
			given{"token", tokenHook, pick("info"), nil},
			given{"username-only", with(tokenHook, func(s *settings) { s.Secret["username"] = "u" }), pick("info"), nil},
			given{"both-logins", with(tokenHook, func(s *settings) { s.Secret["username"] = "u"; s.Secret["password"] = "p" }), pick("info"), nil},
			given{"api", slackAPI, pick("error"), []answer{{Status: 200, Body: `{"ok":true}`}}},
			given{"api-refused", slackAPI, pick("error"), []answer{{Status: 200, Body: `{"ok":false,"error":"channel_not_found"}`}}},
			given{"api-not-json", slackAPI, pick("error"), []answer{{Status: 200, Body: `ok`}}},
			given{"api-created", slackAPI, pick("error"), []answer{{Status: 302, Body: `{"ok":true}`}}})},
		{"discord", cases(named, badAddress(hook),
			given{"no-username", hook, pick("info"), nil},
			given{"slack-address", with(hook, func(s *settings) { s.Address = "https://discord.example.com/api/webhooks/1/x/slack" }), pick("info"), nil},
			given{"slash-address", with(hook, func(s *settings) { s.Address = "https://discord.example.com/api//webhooks/../1/x/" }), pick("info"), nil})},
		{"rocket", cases(named, badAddress(hook), given{"no-username", hook, pick("info"), nil})},
		{"msteams", cases(hook, badAddress(hook),
			given{"connector-info", with(hook, func(s *settings) { s.Address = "https://a.webhook.office.com/x" }), pick("info"), nil},
			given{"connector-special", with(hook, func(s *settings) { s.Address = "https://a.webhook.office.com:443/x" }), pick("special"), nil},
			given{"connector-no-revision", with(hook, func(s *settings) { s.Address = "https://a.webhook.office.com/x" }), pick("no-revision"), nil})},
		{"googlechat", cases(hook, badAddress(hook))},
		{"alertmanager", cases(hook, badAddress(hook), given{"token", tokenHook, pick("info"), nil},
			given{"basic", with(hook, func(s *settings) { s.Secret = basic }), pick("info"), nil},
			given{"both", with(hook, func(s *settings) { s.Secret = maps.Clone(basic); s.Secret["token"] = "t" }), pick("info"), nil})},
		{"grafana", cases(hook, badAddress(hook), given{"token", tokenHook, pick("info"), nil},
			given{"basic", with(hook, func(s *settings) { s.Secret = basic }), pick("info"), nil},
			given{"both", with(hook, func(s *settings) { s.Secret = maps.Clone(basic); s.Secret["token"] = "t" }), pick("info"), nil})},
		{"pagerduty", cases(with(hook, func(s *settings) { s.Address = "https://events.pagerduty.com/some/path" }), badAddress(hook),
			given{"change-refused", hook, pick("info"), []answer{{Status: 202, Body: "{}"}, {Status: 400, Body: "{}"}}})},
		{"opsgenie", cases(tokenHook, badAddress(tokenHook), given{"no-token", hook, pick("info"), nil})},
		{"webex", cases(tokenHook, badAddress(tokenHook), given{"no-token", hook, pick("info"), nil})},
		{"matrix", cases(matrix, badAddress(matrix), given{"slash", with(matrix, func(s *settings) { s.Address += "/" }), pick("info"), nil})},
		{"telegram", cases(settings{Channel: "-100123", Secret: login("token", "1:abc")},
			given{"thread", settings{Channel: "-100123:77", Secret: login("token", "1:abc")}, pick("special"), nil},
			given{"no-channel", settings{Secret: login("token", "1:abc")}, pick("info"), nil},
			given{"no-token", settings{Channel: "c"}, pick("info"), nil})},
		{"lark", cases(hook, badAddress(hook))},
		{"datadog", cases(with(tokenHook, func(s *settings) { s.Address = "https://api.datadoghq.com" }), given{"no-token", hook, pick("info"), nil})},
		{"zulip", cases(settings{Address: "https://zulip.example.com/x", Channel: "flux/alerts/eu", Secret: basic},
			given{"bad-channel", settings{Address: "https://zulip.example.com", Channel: "flux", Secret: basic}, pick("info"), nil},
			given{"no-login", settings{Address: "https://zulip.example.com", Channel: "flux/a"}, pick("info"), nil})},
		{"github", append(statuses(gitHub, list, gitHubStatus("success", "reconciliation succeeded", status), gitHubStatus("failure", "reconciliation succeeded", status)),
			given{"app", app(gitHub, installation...), pick("info"), ok(appToken, "[]")},
			given{"app-owner", app(gitHub, "githubAppInstallationOwner", "one"), pick("info"), ok(`{"id":56}`, appToken, "[]")},
			given{"app-of-user", app(gitHub, "githubAppInstallationOwner", "one"), pick("info"), []answer{missing, {Status: 200, Body: `{"id":57}`}, {Status: 201, Body: appToken}, list, {Status: 201, Body: "{}"}}},
			given{"app-without-installation", app(gitHub), pick("info"), nil},
			given{"app-with-two-installations", app(gitHub, "githubAppInstallationOwner", "one", "githubAppInstallationID", "34"), pick("info"), nil},
			given{"app-enterprise", app(enterprise(gitHub), append(installation, "githubAppBaseURL", "https://ghe.example.com/api/v3")...), pick("info"), ok(appToken, "[]")},
			given{"app-refused", app(gitHub, installation...), pick("info"), []answer{{Status: 401, Body: "{}"}}},
			given{"app-bad-id", with(app(gitHub, installation...), func(s *settings) { s.Secret["githubAppID"] = "x" }), pick("info"), nil})},
		{"githubdispatch", cases(comment(gitHub),
			given{"enterprise", with(gitHub, func(s *settings) { s.Address = "https://ghe.example.com/one/two" }), pick("special"), nil},
			given{"enterprise-api", with(gitHub, func(s *settings) { s.Address = "https://api.ghe.example.com/one/two" }), pick("info"), nil},
			given{"no-token", with(gitHub, func(s *settings) { s.Secret = nil }), pick("info"), nil})},
		{"githubpullrequestcomment", append(comments(comment(gitHub), `{"login":"robot"}`, gitHubComments("robot", "flux-pr-comment-key"), gitHubComments("other", "flux-pr-comment-key")),
			given{"app", app(comment(gitHub), installation...), pick("change-request"), ok(`{"slug":"flux"}`, appToken, gitHubComments("flux[bot]", "flux-pr-comment-key"))})},
		{"gitlab", statuses(gitLab, list, gitLabStatus("success", commit), gitLabStatus("failed", commit))},
		{"gitlabmergerequestcomment", comments(comment(gitLab), `{"username":"robot"}`,
			strings.NewReplacer(`"user":`, `"author":`, `"login":`, `"username":`).Replace(gitHubComments("robot", "flux-mr-comment-key")),
			strings.NewReplacer(`"user":`, `"author":`, `"login":`, `"username":`).Replace(gitHubComments("other", "flux-mr-comment-key")))},
		{"gitea", statuses(gitea, list, strings.ReplaceAll(gitHubStatus("success", "reconciliation succeeded", status), `"state"`, `"status"`),
			strings.ReplaceAll(gitHubStatus("failure", "reconciliation succeeded", status), `"state"`, `"status"`))},
		{"giteapullrequestcomment", comments(comment(gitea), `{"login":"robot"}`, gitHubComments("robot", "flux-pr-comment-key"), gitHubComments("other", "flux-pr-comment-key"))},
		{"bitbucket", statuses(bitbucket, missing, bitbucketStatus("SUCCESSFUL", "reconciliation succeeded"), bitbucketStatus("FAILED", "reconciliation succeeded"))},
		{"bitbucketserver", statuses(server, missing, strings.ReplaceAll(serverStatus("reconciliation succeeded"), "KEY", sha1Hex(status)), serverStatus("reconciliation succeeded"))},
		{"azuredevops", statuses(azure, answer{Status: 200, Body: `{"count":0,"value":[]}`}, azureStatus("succeeded", "fluxcd"), azureStatus("succeeded", "other"))},
		{"sentry", cases(sentry, given{"no-dsn", settings{Channel: "x"}, pick("info"), nil},
			given{"path-dsn", settings{Address: "https://public:secret@sentry.example.com/a/b/42"}, pick("error"), nil})},
		{"nats", cases(nats,
			given{"basic", with(nats, func(s *settings) { s.Secret = basic }), pick("info"), nil},
			given{"nkey", with(nats, func(s *settings) { s.Secret = login("nkey", natsSeed) }), pick("info"), nil},
			given{"creds", with(nats, func(s *settings) { s.Secret = login("creds", natsCreds) }), pick("info"), nil},
			given{"no-channel", settings{Address: nats.Address}, pick("info"), nil})},
		{"otel", cases(otel,
			given{"headers", with(otel, func(s *settings) { s.Secret = map[string]string{"headers": "X-One: two\n", "token": "t0ken"} }), pick("info"), nil},
			given{"headers-basic", with(otel, func(s *settings) {
				s.Secret = map[string]string{"headers": "X-One: two\n", "username": "u", "password": "p"}
			}), pick("info"), nil},
			given{"headers-own", with(otel, func(s *settings) {
				s.Secret = map[string]string{"headers": "Authorization: mine\n", "username": "u", "password": "p"}
			}), pick("info"), nil},
			given{"token-only", with(otel, func(s *settings) { s.Secret = login("token", "t0ken") }), pick("info"), nil},
			given{"no-path", with(otel, func(s *settings) { s.Address = "https://otel.example.com" }), pick("info"), nil},
			given{"plain", with(otel, func(s *settings) { s.Address = "http://otel.example.com/x" }), pick("info"), nil})},
	}
}
