package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apiv1beta3 "github.com/fluxcd/notification-controller/api/v1beta3"
)

// A case as it is given: without a field, the default below is used.
type givenCase struct {
	Name    string               `json:"name"`
	Locked  bool                 `json:"noCrossNamespaceRefs,omitempty"`
	Alert   apiv1beta3.AlertSpec `json:"alert"`
	Type    string               `json:"type"`
	Expr    string               `json:"commitStatusExpr,omitempty"`
	Labels  map[string]string    `json:"labels,omitempty"`
	Event   eventv1.Event        `json:"event"`
	Matched bool                 `json:"matched"`
	Sent    *eventv1.Event       `json:"sent,omitempty"`
	Status  string               `json:"commitStatus,omitempty"`
	// The annotations of the event about keys that several sources of metadata have.
	Conflicts map[string]string `json:"conflicts,omitempty"`
	Error   string               `json:"error,omitempty"`
}

// A recorder that keeps the annotations of the last event about metadata, and panics if its reason or message are not
// the known ones.
type recorder struct {
	*record.FakeRecorder
	conflicts map[string]string
}

func (r *recorder) AnnotatedEventf(_ runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	known := "metadata key conflicts detected (please refer to the Alert API docs and Flux RFC 0008 for more information)"
	if message := fmt.Sprintf(format, args...); kind != "Warning" || reason != "MetadataAppendFailed" || message != known {
		panic(kind + " " + reason + " " + message)
	}
	r.conflicts = annotations
}

// Record reads the cases of a file and writes them with what the event server does for each.
func Record(in, out string) {
	text := must(os.ReadFile(in))
	var cases []givenCase
	check(json.Unmarshal(text, &cases))
	for i := range cases {
		run(&cases[i])
	}
	text = must(json.MarshalIndent(cases, "", " "))
	check(os.WriteFile(out, append(text, '\n'), 0o644))
}

func run(one *givenCase) {
	scheme := runtime.NewScheme()
	check(apiv1beta3.AddToScheme(scheme))
	check(corev1.AddToScheme(scheme))
	alert := &apiv1beta3.Alert{Spec: one.Alert}
	alert.Name, alert.Namespace, alert.UID = "alert", "apps", "8b05ba07-0000-4000-8000-000000000001"
	provider := &apiv1beta3.Provider{}
	provider.Name, provider.Namespace, provider.UID = "provider", "apps", "0C9C2E41-d2f9-4f9b-9c41-bebc1984d67a"
	provider.Spec.Type, provider.Spec.CommitStatusExpr = one.Type, one.Expr
	provider.Spec.Address = "https://git.example.com/acme/fleet"
	provider.Spec.SecretRef = &meta.LocalObjectReference{Name: "login"}
	secret := &corev1.Secret{Data: map[string][]byte{"token": []byte("token")}}
	secret.Name, secret.Namespace = "login", "apps"
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(one.Event.InvolvedObject.GroupVersionKind())
	object.SetName(one.Event.InvolvedObject.Name)
	object.SetNamespace(one.Event.InvolvedObject.Namespace)
	object.SetLabels(one.Labels)
	client := fake.NewClientBuilder().WithScheme(scheme).WithObjects(alert, provider, secret, object).Build()
	events := &recorder{FakeRecorder: record.NewFakeRecorder(64)}
	server := NewEventServer("", logr.Discard(), client, events, one.Locked, false, nil)

	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	event := one.Event.DeepCopy()
	cleanupMetadata(event)
	excludeInternalMetadata(event)
	alerts := server.filterAlertsForEvent(ctx, []apiv1beta3.Alert{*alert}, event)
	one.Matched = len(alerts) == 1
	if !one.Matched {
		return
	}
	params, _, err := server.getNotificationParams(ctx, event, &alerts[0])
	if err != nil && !strings.HasPrefix(err.Error(), "failed to initialize notifier") {
		one.Error = err.Error()
		return
	}
	if err == nil && params == nil {
		return
	}
	// The notifiers of some types call their host at the start, which is after all decisions.
	one.Sent = event.DeepCopy()
	server.combineEventMetadata(ctx, one.Sent, &alerts[0])
	one.Conflicts = events.conflicts
	if err == nil && !reflect.DeepEqual(one.Sent, params.event) {
		panic(one.Name)
	}
	one.Status = must(createCommitStatus(ctx, provider, one.Sent, &alerts[0]))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
