// Records the requests that notification-controller's notifiers send for events, with the answers of a server that
// plays all hosts. record.sh puts this file into a copy of the controller's module and runs it.
//
//	record OUT
//
// Each file OUT/TYPE.json has the cases of one provider type: settings, event, the answers, the requests, the error.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	"github.com/fluxcd/pkg/runtime/secrets"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/fluxcd/notification-controller/internal/notifier"
)

type settings struct {
	Address      string            `json:"address,omitempty"`
	Channel      string            `json:"channel,omitempty"`
	Username     string            `json:"username,omitempty"`
	CommitStatus string            `json:"commitStatus,omitempty"`
	Secret       map[string]string `json:"secret,omitempty"`
}

type answer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
}

type request struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
	Base64 string            `json:"base64,omitempty"`
}

type outcome struct {
	Name     string        `json:"name"`
	Settings settings      `json:"settings"`
	Event    eventv1.Event `json:"event"`
	Answers  []answer      `json:"answers,omitempty"`
	Requests []request     `json:"requests"`
	Error    string        `json:"error,omitempty"`
	// True if the client sent a request again after the answer.
	Retried bool `json:"retried,omitempty"`
}

type file struct {
	Type  string    `json:"type"`
	Cases []outcome `json:"cases"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A server for every host: answers in order, then {} with 200.
type server struct {
	sync.Mutex
	answers  []answer
	requests []request
}

func (s *server) reset(answers []answer) {
	s.Lock()
	defer s.Unlock()
	s.answers, s.requests = slices.Clone(answers), nil
}

func (s *server) add(r request) {
	s.Lock()
	defer s.Unlock()
	s.requests = append(s.requests, r)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := must(io.ReadAll(r.Body))
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	// SDKs ask for the version of the server and for its routes first. These requests are not recorded.
	if strings.HasSuffix(r.URL.Path, "/api/v1/version") {
		fmt.Fprint(w, `{"version":"1.24.0"}`)
		return
	}
	if r.Method == http.MethodOptions {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, azureRoutes)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/envelope/") {
		body = withoutMachine(body)
	}
	recorded := request{Method: r.Method, URL: scheme + "://" + r.Host + r.URL.RequestURI(), Header: map[string]string{}}
	for name, values := range r.Header {
		if !slices.Contains(ignored, name) {
			recorded.Header[strings.ToLower(name)] = withoutSignature(strings.Join(values, ", "))
		}
	}
	if utf8.Valid(body) {
		recorded.Body = string(body)
	} else {
		recorded.Base64 = base64.StdEncoding.EncodeToString(body)
	}
	s.Lock()
	s.requests = append(s.requests, recorded)
	next := answer{Status: 200, Body: "{}"}
	if len(s.answers) > 1 {
		next, s.answers = s.answers[0], s.answers[1:]
	} else if len(s.answers) == 1 {
		next = s.answers[0]
	}
	s.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for name, value := range next.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(next.Status)
	fmt.Fprint(w, next.Body)
}

// Replaces a JWT by its issuer and its life.
func withoutSignature(value string) string {
	jwt, found := strings.CutPrefix(value, "Bearer eyJ")
	if !found || strings.Count(jwt, ".") != 2 {
		return value
	}
	var claims struct {
		Issuer  string `json:"iss"`
		Issued  int64  `json:"iat"`
		Expires int64  `json:"exp"`
	}
	payload := must(base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[1]))
	if err := json.Unmarshal(payload, &claims); err != nil {
		panic(err)
	}
	return fmt.Sprintf("JWT of %s for %d s", claims.Issuer, claims.Expires-claims.Issued)
}

// Removes from an envelope of Sentry what the SDK adds about the program and the machine, and random ids.
func withoutMachine(envelope []byte) []byte {
	var lines [][]byte
	for line := range bytes.Lines(bytes.TrimSpace(envelope)) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			panic(err)
		}
		for _, field := range []string{"event_id", "sent_at", "sdk", "modules", "length", "platform"} {
			delete(fields, field)
		}
		if fields["server_name"] == must(os.Hostname()) {
			delete(fields, "server_name")
		}
		if contexts, ok := fields["contexts"].(map[string]any); ok {
			for _, field := range []string{"device", "os", "runtime"} {
				delete(contexts, field)
			}
			if trace, ok := contexts["trace"].(map[string]any); ok {
				delete(trace, "trace_id")
				delete(trace, "span_id")
			}
		}
		if spans, ok := fields["spans"].([]any); ok {
			for _, span := range spans {
				delete(span.(map[string]any), "trace_id")
				delete(span.(map[string]any), "span_id")
			}
		}
		lines = append(lines, must(json.Marshal(fields)))
	}
	return bytes.Join(lines, []byte("\n"))
}

var ignored = []string{"Accept-Encoding", "Connection", "Content-Length", "User-Agent", "X-Tfs-Session", "X-Tfs-Fedauthredirect"}

const azureRoutes = `{"count":1,"value":[{"id":"428dd4fb-fda5-4722-af02-9313b80305da","area":"git","resourceName":"statuses",` +
	`"routeTemplate":"{project}/_apis/{area}/repositories/{repositoryId}/commits/{commitId}/{resource}",` +
	`"resourceVersion":1,"minVersion":"2.0","maxVersion":"7.1","releasedVersion":"7.0"}]}`

// Serves all names of DNS as 127.0.0.1, and all hosts by TLS and without.
func serve(handler http.Handler) {
	packets := must(net.ListenPacket("udp", "127.0.0.1:0"))
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			var message dnsmessage.Message
			if message.Unpack(buffer[:n]) != nil {
				continue
			}
			message.Response, message.Authoritative = true, true
			message.Additionals = nil
			for _, question := range message.Questions {
				if question.Type == dnsmessage.TypeA {
					header := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 60}
					message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}})
				}
			}
			packed := must(message.Pack())
			must(packets.WriteTo(packed, from))
		}
	}()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("udp", packets.LocalAddr().String())
	}}
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "recorder"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER := must(x509.CreateCertificate(rand.Reader, root, root, key.Public(), key))
	bundle := filepath.Join(os.TempDir(), fmt.Sprintf("recorder-%d.pem", os.Getpid()))
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}), 0o600); err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", bundle)
	os.Setenv("SSL_CERT_DIR", "/nonexistent")
	config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{hello.ServerName}, NotBefore: root.NotBefore, NotAfter: root.NotAfter}
		der, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), key)
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
	}}
	plain := must(net.Listen("tcp", "127.0.0.1:80"))
	secure := tls.NewListener(must(net.Listen("tcp", "127.0.0.1:443")), config)
	go http.Serve(plain, handler)
	go http.Serve(secure, handler)
}

// Plays a NATS server: records the CONNECT and PUB of each connection as requests.
func serveNATS(s *server) {
	listener := must(net.Listen("tcp", "127.0.0.1:4222"))
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				fmt.Fprint(connection, `INFO {"server_id":"a","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576,"nonce":"bm9uY2U"}`+"\r\n")
				reader := bufio.NewReader(connection)
				for {
					line, err := reader.ReadString('\n')
					if err != nil {
						return
					}
					line = strings.TrimSpace(line)
					switch verb, rest, _ := strings.Cut(line, " "); verb {
					case "CONNECT":
						s.add(request{Method: "CONNECT", URL: "nats", Body: rest})
					case "PUB":
						subject, size, _ := strings.Cut(rest, " ")
						var n int
						must(fmt.Sscan(size, &n))
						payload := make([]byte, n+2)
						must(io.ReadFull(reader, payload))
						s.add(request{Method: "PUB", URL: subject, Body: string(payload[:n])})
					case "PING":
						fmt.Fprint(connection, "PONG\r\n")
					}
				}
			}()
		}
	}()
}

// Builds the notifier as the controller's event server does.
func build(ctx context.Context, kind string, given settings) (notifier.Interface, error) {
	options := []notifier.Option{
		notifier.WithProviderUID("5d1a9c5e-0b6f-4c5b-8e7e-000000000001"), notifier.WithProviderName("alerts"),
		notifier.WithProviderNamespace("flux-system"),
	}
	if given.CommitStatus != "" {
		options = append(options, notifier.WithCommitStatus(given.CommitStatus))
	}
	if given.Channel != "" {
		options = append(options, notifier.WithChannel(given.Channel))
	}
	if given.Username != "" {
		options = append(options, notifier.WithUsername(given.Username))
	}
	data := map[string][]byte{}
	for name, value := range given.Secret {
		data[name] = []byte(value)
		if value == appKey {
			data[name] = appPEM
		}
	}
	address := given.Address
	if len(data) > 0 {
		if raw, ok := data["headers"]; ok {
			headers := map[string]string{}
			if err := yaml.Unmarshal(raw, &headers); err != nil {
				return nil, err
			}
			options = append(options, notifier.WithHeaders(headers))
		}
		methods, err := secrets.AuthMethodsFromSecret(ctx, &corev1.Secret{Data: data})
		if err == nil && methods != nil {
			if methods.HasTokenAuth() {
				options = append(options, notifier.WithToken(string(methods.Token)))
			}
			if methods.HasBasicAuth() {
				options = append(options, notifier.WithUsername(methods.Basic.Username), notifier.WithPassword(methods.Basic.Password))
			}
		}
		options = append(options, notifier.WithSecretData(data))
		if value, ok := data["address"]; ok {
			address = strings.TrimSpace(string(value))
		}
	}
	if address != "" {
		options = append(options, notifier.WithURL(address))
	}
	return notifier.NewFactory(ctx, options...).Notifier(kind)
}

// Removes what was sent again, and reports whether something was.
func withoutRetries(requests []request) ([]request, bool) {
	var distinct []request
	for _, next := range requests {
		if len(distinct) > 0 && sameTarget(distinct[len(distinct)-1], next) {
			return distinct, true
		}
		distinct = append(distinct, next)
	}
	return distinct, false
}

func sameTarget(a, b request) bool {
	return a.Method == b.Method && a.URL == b.URL && a.Body == b.Body
}

func run(s *server, kind string, c given) outcome {
	s.reset(c.answers)
	limit := 20 * time.Second
	failing := len(c.answers) > 0 && c.answers[len(c.answers)-1].Status >= 400
	if failing {
		limit = 2500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ctx = notifier.WithAlertMetadata(ctx, metav1.ObjectMeta{Namespace: "flux-system", Name: "on-call", UID: types.UID("5d1a9c5e-0b6f-4c5b-8e7e-000000000002")})
	result := outcome{Name: c.name, Settings: c.settings, Event: *c.event.DeepCopy(), Answers: c.answers}
	sender, err := build(ctx, kind, c.settings)
	if err == nil {
		err = sender.Post(ctx, *c.event.DeepCopy())
	}
	if client, ok := sender.(*notifier.Sentry); ok && client != nil {
		client.Client.Flush(5 * time.Second)
	}
	if err != nil {
		result.Error = err.Error()
	}
	s.Lock()
	defer s.Unlock()
	result.Requests = s.requests
	if failing {
		result.Requests, result.Retried = withoutRetries(s.requests)
	}
	if result.Requests == nil {
		result.Requests = []request{}
	}
	return result
}

func main() {
	out, only := os.Args[1], os.Args[2:]
	s := &server{}
	serve(s)
	serveNATS(s)
	for _, group := range groups() {
		if len(only) > 0 && !slices.Contains(only, group.kind) {
			continue
		}
		result := file{Type: group.kind}
		for _, c := range group.cases {
			result.Cases = append(result.Cases, run(s, group.kind, c))
		}
		var buffer bytes.Buffer
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(result); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(out, group.kind+".json"), buffer.Bytes(), 0o644); err != nil {
			panic(err)
		}
		fmt.Println(group.kind, len(result.Cases))
	}
}
