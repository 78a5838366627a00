// Answers the cases of tests/corpus/kstatus with the code that Flux runs:
//
//	go run . ../../corpus/kstatus
//
// reads objects.json (kstatus), exprs.json (healthCheckExprs) and ready.json (dependsOn[].readyExpr), and writes
// objects.answers.jsonl, exprs.answers.jsonl and ready.answers.jsonl beside them.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"github.com/fluxcd/pkg/runtime/statusreaders"
	celtypes "github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

type answer struct {
	Name    string `json:"name"`
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Ready   *bool  `json:"ready,omitempty"`
	Error   string `json:"error,omitempty"`
	// Flux's own reading of a Job.
	FluxStatus  string `json:"fluxStatus,omitempty"`
	FluxMessage string `json:"fluxMessage,omitempty"`
}

// fields decodes integers as int64, as the Kubernetes client does.
type fields map[string]any

func (f *fields) UnmarshalJSON(data []byte) error {
	return utiljson.Unmarshal(data, (*map[string]any)(f))
}

type objectCase struct {
	Name   string `json:"name"`
	Object fields `json:"object"`
}

type exprCase struct {
	Name       string `json:"name"`
	Current    string `json:"current"`
	Failed     string `json:"failed"`
	InProgress string `json:"inProgress"`
	Object     fields `json:"object"`
}

type readyCase struct {
	Name string `json:"name"`
	Expr string `json:"expr"`
	Self fields `json:"self"`
	Dep  fields `json:"dep"`
}

func main() {
	dir := os.Args[1]
	answerAll(dir, "objects", func(c objectCase) answer {
		object := &unstructured.Unstructured{Object: c.Object}
		a := answer{Name: c.Name}
		if object.GetKind() == "Job" {
			flux := statusreaders.ComputeJobStatus(object)
			a.FluxStatus, a.FluxMessage = flux.Status.String(), flux.Message
		}
		result, err := status.Compute(object)
		if err != nil {
			a.Error = err.Error()
			return a
		}
		a.Status, a.Message = result.Status.String(), result.Message
		return a
	})
	answerAll(dir, "exprs", func(c exprCase) answer {
		evaluator, err := cel.NewStatusEvaluator(&kustomize.HealthCheckExpressions{
			Current: c.Current, Failed: c.Failed, InProgress: c.InProgress,
		})
		if err != nil {
			return answer{Name: c.Name, Error: err.Error()}
		}
		result, err := evaluator.Evaluate(context.Background(), &unstructured.Unstructured{Object: c.Object})
		if err != nil {
			return answer{Name: c.Name, Error: err.Error()}
		}
		return answer{Name: c.Name, Status: result.Status.String()}
	})
	answerAll(dir, "ready", func(c readyCase) answer {
		expr, err := cel.NewExpression(c.Expr, cel.WithCompile(), cel.WithOutputType(celtypes.BoolType),
			cel.WithStructVariables("self", "dep"))
		if err != nil {
			return answer{Name: c.Name, Error: err.Error()}
		}
		ready, err := expr.EvaluateBoolean(context.Background(), map[string]any{
			"self": map[string]any(c.Self), "dep": map[string]any(c.Dep),
		})
		if err != nil {
			return answer{Name: c.Name, Error: err.Error()}
		}
		return answer{Name: c.Name, Ready: &ready}
	})
}

func answerAll[C any](dir, name string, run func(C) answer) {
	data, err := os.ReadFile(filepath.Join(dir, name+".json"))
	check(err)
	var raw []json.RawMessage
	check(json.Unmarshal(data, &raw))
	out, err := os.Create(filepath.Join(dir, name+".answers.jsonl"))
	check(err)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, one := range raw {
		check(encoder.Encode(answerOne(one, run)))
	}
	check(out.Close())
}

func answerOne[C any](raw json.RawMessage, run func(C) answer) (a answer) {
	var named struct {
		Name string `json:"name"`
	}
	check(json.Unmarshal(raw, &named))
	defer func() {
		if r := recover(); r != nil {
			a = answer{Name: named.Name, Error: fmt.Sprintf("panic: %v", r)}
		}
	}()
	var c C
	check(json.Unmarshal(raw, &c))
	return run(c)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
