// Answers the cases of tests/corpus/envsubst with Flux's own code:
//
//	go run . ../../corpus/envsubst
//
// reads cases.json and writes answers.jsonl beside it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/provider"
)

type testCase struct {
	Name   string            `json:"name"`
	Text   *string           `json:"text,omitempty"`
	Object map[string]any    `json:"object,omitempty"`
	Vars   map[string]string `json:"vars"`
	Strict bool              `json:"strict"`
	Always bool              `json:"always"`
}

type answer struct {
	Name   string          `json:"name"`
	Text   *string         `json:"text,omitempty"`
	Object json.RawMessage `json:"object,omitempty"`
	Error  string          `json:"error,omitempty"`
}

func main() {
	dir := os.Args[1]
	data, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	check(err)
	var corpus struct {
		Vars  map[string]string `json:"vars"`
		Cases []testCase        `json:"cases"`
	}
	check(json.Unmarshal(data, &corpus))
	answers := make([]answer, 0, len(corpus.Cases))
	for _, c := range corpus.Cases {
		if c.Vars == nil {
			c.Vars = corpus.Vars
		}
		answers = append(answers, run(c))
	}
	out, err := os.Create(filepath.Join(dir, "answers.jsonl"))
	check(err)
	// One answer a line.
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, a := range answers {
		check(encoder.Encode(a))
	}
	check(out.Close())
}

func run(c testCase) (a answer) {
	a.Name = c.Name
	defer func() {
		if r := recover(); r != nil {
			a = answer{Name: c.Name, Error: fmt.Sprintf("panic: %v", r)}
		}
	}()
	if c.Text != nil {
		out, err := envsubst.Eval(*c.Text, func(name string) (string, bool) {
			value, found := c.Vars[name]
			return value, found || !c.Strict
		})
		if err != nil {
			a.Error = err.Error()
		} else {
			a.Text = &out
		}
		return a
	}
	factory := provider.NewDefaultDepProvider().GetResourceFactory()
	raw, err := json.Marshal(c.Object)
	check(err)
	res, err := factory.FromBytes(raw)
	check(err)
	vars := map[string]any{}
	for k, v := range c.Vars {
		vars[k] = v
	}
	owner := unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"postBuild": map[string]any{"substitute": vars}},
	}}
	out, err := kustomize.SubstituteVariables(context.Background(), nil, owner, res,
		kustomize.SubstituteWithDryRun(true),
		kustomize.SubstituteWithStrict(c.Strict),
		kustomize.SubstituteWithAlways(c.Always))
	if err != nil {
		a.Error = err.Error()
		return a
	}
	if out == nil {
		out = res
	}
	object, err := out.MarshalJSON()
	check(err)
	a.Object = object
	return a
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
