// Answers the cases of tests/corpus/drift with a real API server:
//
//	go run . ../../corpus/drift https://127.0.0.1:6443 TOKEN
//
// For each case of cases.json it applies an object as kustomize-controller, lets others change it, reads it, and asks with a
// dry-run whether applying the desired object would change it, as Flux does. answers.jsonl has the live object and the answer;
// cases that the server refuses are left out of both files.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

type object = map[string]any

type step struct {
	Manager string `json:"manager"`
	Merge   object `json:"merge,omitempty"`
	Apply   object `json:"apply,omitempty"`
}

type testCase struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Applied object `json:"applied"`
	Then    []step `json:"then,omitempty"`
	Desired object `json:"desired"`
}

type answer struct {
	Name    string `json:"name"`
	Live    object `json:"live"`
	Changed bool   `json:"changed"`
}

var (
	server, token string
	client        = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // a server of this run, on this machine
	}}
)

func main() {
	dir := os.Args[1]
	server, token = os.Args[2], os.Args[3]
	data, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	check(err)
	var cases []testCase
	check(json.Unmarshal(data, &cases))
	var kept, answers []any
	for _, c := range cases {
		a, err := run(c)
		if err != nil {
			log.Printf("%s: %v", c.Name, err)
			continue
		}
		kept, answers = append(kept, c), append(answers, a)
	}
	write(filepath.Join(dir, "cases.json"), "[\n", ",\n", "\n]\n", kept)
	write(filepath.Join(dir, "answers.jsonl"), "", "\n", "\n", answers)
}

func run(c testCase) (a answer, err error) {
	defer request("DELETE", c.Path, "application/json", object{"gracePeriodSeconds": 0})
	if _, err = apply(c.Path, "kustomize-controller", c.Applied, false); err != nil {
		return a, err
	}
	for _, s := range c.Then {
		if s.Apply != nil {
			_, err = apply(c.Path, s.Manager, s.Apply, false)
		} else {
			_, err = request("PATCH", c.Path+"?fieldManager="+s.Manager, "application/merge-patch+json", s.Merge)
		}
		if err != nil {
			return a, err
		}
	}
	live, err := request("GET", c.Path, "", nil)
	if err != nil {
		return a, err
	}
	would, err := apply(c.Path, "kustomize-controller", c.Desired, true)
	if err != nil {
		return a, err
	}
	return answer{Name: c.Name, Live: live, Changed: !reflect.DeepEqual(compared(live), compared(would))}, nil
}

// compared is what Flux looks at: everything but the status, and of the metadata the labels and annotations.
func compared(o object) object {
	out := object{}
	for key, value := range o {
		if key != "metadata" && key != "status" {
			out[key] = value
		}
	}
	metadata := o["metadata"].(object)
	for _, key := range []string{"labels", "annotations"} {
		if value, ok := metadata[key].(object); ok && len(value) > 0 {
			out["metadata."+key] = value
		}
	}
	return out
}

func apply(path, manager string, o object, dryRun bool) (object, error) {
	path += "?force=true&fieldManager=" + manager
	if dryRun {
		path += "&dryRun=All"
	}
	return request("PATCH", path, "application/apply-patch+yaml", o)
}

func request(method, path, contentType string, body object) (object, error) {
	data, err := json.Marshal(body)
	check(err)
	r, err := http.NewRequest(method, server+path, bytes.NewReader(data))
	check(err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", contentType)
	response, err := client.Do(r)
	check(err)
	defer response.Body.Close()
	data, err = io.ReadAll(response.Body)
	check(err)
	if response.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s", method, path, strings.TrimSpace(string(data)))
	}
	var o object
	check(json.Unmarshal(data, &o))
	return o, nil
}

func write(path, before, between, after string, items []any) {
	lines := make([]string, 0, len(items))
	for _, item := range items {
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		check(encoder.Encode(item))
		lines = append(lines, strings.TrimSpace(line.String()))
	}
	check(os.WriteFile(path, []byte(before+strings.Join(lines, between)+after), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
