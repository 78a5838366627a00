// What Flux's own library sends to clouds, and what it makes of their answers.
//
// A case a line on standard input, what came of it on standard output. Every host that the library asks is played by a server in
// this process, which answers as the case says.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/fluxcd/pkg/auth"
	"github.com/fluxcd/pkg/auth/utils"
	authnv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Case is one login. A registry or a cluster is opened.
type Case struct {
	Provider    string            `json:"provider"`
	Registry    string            `json:"registry"`
	Cluster     string            `json:"cluster"`
	Address     string            `json:"address"`
	CA          string            `json:"ca"`
	Annotations map[string]string `json:"annotations"`
	// Answers by `METHOD host/path`, without a query.
	Answers map[string]json.RawMessage `json:"answers"`
}

// Request is what a host was sent.
type Request struct {
	Method  string              `json:"method"`
	Place   string              `json:"place"`
	Query   map[string][]string `json:"query"`
	Headers map[string]string   `json:"headers"`
	Form    map[string][]string `json:"form,omitempty"`
	Body    string              `json:"body,omitempty"`
}

// Outcome is what came of a case.
type Outcome struct {
	Requests []Request `json:"requests"`
	User     string    `json:"user,omitempty"`
	Password string    `json:"password,omitempty"`
	Host     string    `json:"host,omitempty"`
	CA       string    `json:"ca,omitempty"`
	Token    string    `json:"token,omitempty"`
	Expires  int64     `json:"expires,omitempty"`
	// For whom the service account's token was.
	Audiences []string `json:"audiences,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// hub has one service account, apps/reader.
type hub struct {
	client.Client
	annotations map[string]string
	audiences   []string
}

func (h *hub) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	account, ok := object.(*corev1.ServiceAccount)
	if !ok {
		return fmt.Errorf("unexpected object %T", object)
	}
	account.Name, account.Namespace, account.Annotations = key.Name, key.Namespace, h.annotations
	return nil
}

func (h *hub) SubResource(string) client.SubResourceClient {
	return &tokens{hub: h}
}

type tokens struct {
	client.SubResourceClient
	hub *hub
}

func (t *tokens) Create(_ context.Context, _ client.Object, request client.Object, _ ...client.SubResourceCreateOption) error {
	asked := request.(*authnv1.TokenRequest)
	t.hub.audiences = asked.Spec.Audiences
	asked.Status.Token = "of-the-hub"
	return nil
}

// clouds plays every host.
type clouds struct {
	answers map[string]json.RawMessage
	mutex   sync.Mutex
	asked   []Request
}

func (c *clouds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	place := r.Host + r.URL.Path
	request := Request{Method: r.Method, Place: place, Query: r.URL.Query(), Headers: map[string]string{}}
	for _, name := range []string{"Authorization", "Content-Type", "X-Amz-Target"} {
		if value := r.Header.Get(name); value != "" {
			request.Headers[strings.ToLower(name)] = value
		}
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		request.Form, _ = url.ParseQuery(string(body))
	} else {
		request.Body = string(body)
	}
	c.mutex.Lock()
	c.asked = append(c.asked, request)
	c.mutex.Unlock()
	answer, ok := c.answers[r.Method+" "+place]
	if !ok {
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	var text string
	if json.Unmarshal(answer, &text) == nil {
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func main() {
	auth.EnableObjectLevelWorkloadIdentity()
	cases, outcomes := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var one Case
		err := cases.Decode(&one)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = outcomes.Encode(play(one))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
}

func play(one Case) Outcome {
	hosts := &clouds{answers: one.Answers}
	server := httptest.NewTLSServer(hosts)
	defer server.Close()
	// The library's clients are made of this one.
	transport := http.DefaultTransport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	transport.ForceAttemptHTTP2 = false

	accounts := &hub{annotations: one.Annotations}
	options := []auth.Option{
		auth.WithClient(accounts),
		auth.WithServiceAccountNamespace("apps"),
		auth.WithServiceAccountName("reader"),
	}
	var outcome Outcome
	var err error
	if one.Registry != "" {
		err = registry(one, options, &outcome)
	} else {
		err = cluster(one, options, &outcome)
	}
	if err != nil {
		outcome.Error = err.Error()
	}
	outcome.Requests, outcome.Audiences = hosts.asked, accounts.audiences
	return outcome
}

func registry(one Case, options []auth.Option, outcome *Outcome) error {
	provider, err := utils.ProviderByName[auth.ArtifactRegistryCredentialsProvider](one.Provider)
	if err != nil {
		return err
	}
	login, err := auth.GetArtifactRegistryCredentials(context.Background(), provider, one.Registry, options...)
	if err != nil {
		return err
	}
	config, err := login.Authorization()
	if err != nil {
		return err
	}
	outcome.User, outcome.Password, outcome.Expires = config.Username, config.Password, login.ExpiresAt.Unix()
	return nil
}

func cluster(one Case, options []auth.Option, outcome *Outcome) error {
	provider, err := utils.ProviderByName[auth.RESTConfigProvider](one.Provider)
	if err != nil {
		return err
	}
	options = append(options, auth.WithClusterResource(one.Cluster), auth.WithClusterAddress(one.Address), auth.WithCAData(one.CA))
	config, err := auth.GetRESTConfig(context.Background(), provider, options...)
	if err != nil {
		return err
	}
	outcome.Host, outcome.CA, outcome.Token = config.Host, string(config.CAData), config.BearerToken
	outcome.Expires = config.ExpiresAt.Unix()
	return nil
}
