// Writes the embedded API server's table of built-in types: for each field its
// JSON name and type, whether Go leaves it out when empty, how server-side
// apply and strategic merge treat it, and what the API server's defaulting
// puts there. Everything is asked of the Kubernetes modules themselves: the Go
// types by reflection, their published OpenAPI definitions, their defaulting.
//
// Usage: go run . > ../../../shared/apiserver/src/schema/builtin.json
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

type table struct {
	Types []*typ         `json:"types"`
	Kinds map[string]int `json:"kinds"`
}

// typ is one type; unused parts are left out.
type typ struct {
	Kind   string   `json:"k"`
	Name   string   `json:"n,omitempty"`
	Atomic bool     `json:"a,omitempty"`
	Elem   *int     `json:"e,omitempty"`
	List   string   `json:"l,omitempty"`
	Keys   []string `json:"y,omitempty"`
	Fields []*field `json:"f,omitempty"`
	// Protobuf: numbers and types of messages whose fields are ours.
	Inline [][2]int `json:"i,omitempty"`
}

type field struct {
	Name string `json:"n"`
	Type int    `json:"t"`
	// e: omitempty, z: omitzero, p: pointer, r: required by OpenAPI.
	Flags string `json:"g,omitempty"`
	// The number in protobuf.
	Number int `json:"b,omitempty"`
	// What defaulting puts into an empty field, wherever the type is used.
	Default any `json:"d,omitempty"`
	// The default that OpenAPI declares: server-side apply uses it for keys.
	Key any `json:"x,omitempty"`
	// Strategic merge: strategy and merge key of the Go struct's tags.
	Strategy string `json:"s,omitempty"`
	MergeKey string `json:"m,omitempty"`
}

var groups = map[string]bool{
	"v1": true, "apiregistration.k8s.io/v1": true, "apps/v1": true, "authentication.k8s.io/v1": true,
	"authorization.k8s.io/v1": true, "autoscaling/v1": true, "autoscaling/v2": true, "batch/v1": true,
	"certificates.k8s.io/v1": true, "networking.k8s.io/v1": true, "policy/v1": true, "rbac.authorization.k8s.io/v1": true,
	"storage.k8s.io/v1": true, "admissionregistration.k8s.io/v1": true, "apiextensions.k8s.io/v1": true,
	"scheduling.k8s.io/v1": true, "coordination.k8s.io/v1": true, "node.k8s.io/v1": true, "discovery.k8s.io/v1": true,
	"resource.k8s.io/v1": true, "flowcontrol.apiserver.k8s.io/v1": true, "events.k8s.io/v1": true,
}

var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "string",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "fields",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "intstr",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "orarray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "orbool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "any",
}

var (
	out   = table{Kinds: map[string]int{}}
	named = map[string]int{}
	defs  map[string]common.OpenAPIDefinition
	// Struct type and field to the defaults that were seen there.
	defaults = map[reflect.Type]map[string][]any{}
)

func main() {
	scheme := legacyscheme.Scheme
	apiextensions.Install(scheme)
	apiregistration.Install(scheme)
	defs = openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/" + name) })
	var kinds []schema.GroupVersionKind
	for gvk, t := range scheme.AllKnownTypes() {
		own := strings.HasPrefix(t.PkgPath(), "k8s.io/api/") || strings.Contains(t.PkgPath(), "/apis/apiextensions/v1") || strings.Contains(t.PkgPath(), "/apis/apiregistration/v1") || strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/pkg/apis/meta/v1")
		if groups[gvk.GroupVersion().String()] && own && !strings.HasSuffix(gvk.Kind, "List") && !strings.HasSuffix(gvk.Kind, "Options") && gvk.Kind != "WatchEvent" {
			kinds = append(kinds, gvk)
		}
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	for _, gvk := range kinds {
		observe(scheme, gvk)
	}
	for _, gvk := range kinds {
		t := scheme.AllKnownTypes()[gvk]
		out.Kinds[gvk.GroupVersion().String()+"/"+gvk.Kind] = build(t, nil)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		panic(err)
	}
}

func add(t *typ) int {
	if t.Kind != "struct" {
		key, _ := json.Marshal(t)
		if i, ok := named[string(key)]; ok {
			return i
		}
		named[string(key)] = len(out.Types)
	}
	out.Types = append(out.Types, t)
	return len(out.Types) - 1
}

func full(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

func definition(t reflect.Type) (string, *spec.Schema) {
	name := full(t)
	if m, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		name = m.OpenAPIModelName()
	}
	if d, ok := defs[name]; ok {
		return name, &d.Schema
	}
	return name, nil
}

func text(s *spec.Schema, key string) string {
	if s == nil {
		return ""
	}
	v, _ := s.Extensions[key].(string)
	return v
}

// build adds a Go type; prop is the OpenAPI of the property that holds it.
func build(t reflect.Type, prop *spec.Schema) int {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := special[full(t)]; ok {
		return specialType(t, s)
	}
	switch t.Kind() {
	case reflect.String:
		return add(&typ{Kind: "string"})
	case reflect.Bool:
		return add(&typ{Kind: "bool"})
	case reflect.Int32, reflect.Uint32, reflect.Uint8, reflect.Uint16:
		return add(&typ{Kind: "int32"})
	case reflect.Int64, reflect.Int:
		return add(&typ{Kind: "int"})
	case reflect.Float64, reflect.Float32:
		return add(&typ{Kind: "float"})
	case reflect.Interface:
		return add(&typ{Kind: "any"})
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return add(&typ{Kind: "bytes"})
		}
		var items *spec.Schema
		if prop != nil && prop.Items != nil {
			items = prop.Items.Schema
		}
		e := build(t.Elem(), items)
		l := &typ{Kind: "list", Elem: &e, List: "atomic"}
		switch text(prop, "x-kubernetes-list-type") {
		case "set":
			l.List = "set"
		case "map":
			l.List = "map"
			l.Keys = stringsOf(prop.Extensions["x-kubernetes-list-map-keys"])
		case "":
			if strings.HasPrefix(text(prop, "x-kubernetes-patch-strategy"), "merge") {
				l.List = "set"
				if k := text(prop, "x-kubernetes-patch-merge-key"); k != "" {
					l.List, l.Keys = "map", []string{k}
				}
			}
		}
		return add(l)
	case reflect.Map:
		var value *spec.Schema
		if prop != nil && prop.AdditionalProperties != nil {
			value = prop.AdditionalProperties.Schema
		}
		e := build(t.Elem(), value)
		return add(&typ{Kind: "map", Elem: &e, Atomic: text(prop, "x-kubernetes-map-type") == "atomic"})
	case reflect.Struct:
		return structType(t, text(prop, "x-kubernetes-map-type"))
	}
	panic("no rule for " + t.String())
}

func specialType(t reflect.Type, s string) int {
	if s == "orarray" || s == "orbool" {
		f, _ := t.FieldByName("Schema")
		key := full(t)
		if i, ok := named[key]; ok {
			return i
		}
		node := &typ{Kind: s}
		out.Types = append(out.Types, node)
		i := len(out.Types) - 1
		named[key] = i
		e := build(f.Type, nil)
		node.Elem = &e
		return i
	}
	return add(&typ{Kind: s})
}

func stringsOf(v any) (all []string) {
	switch v := v.(type) {
	case []string:
		return v
	case []interface{}:
		for _, s := range v {
			all = append(all, s.(string))
		}
	}
	return all
}

func structType(t reflect.Type, relation string) int {
	name, def := definition(t)
	key := name + " " + relation
	if i, ok := named[key]; ok {
		return i
	}
	node := &typ{Kind: "struct", Name: name, Atomic: relation == "atomic" || relation == "" && text(def, "x-kubernetes-map-type") == "atomic"}
	i := add(node)
	named[key] = i
	node.Fields = fields(t, def)
	node.Inline = inlined(t)
	return i
}

func number(f reflect.StructField) int {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		panic(err)
	}
	return n
}

func inlined(t reflect.Type) (all [][2]int) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		if n := number(f); n > 0 && strings.HasPrefix(f.Tag.Get("json"), ",inline") {
			all = append(all, [2]int{n, structType(f.Type, "")})
		}
	}
	return all
}

func fields(t reflect.Type, def *spec.Schema) (all []*field) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		has := func(o string) bool {
			for _, p := range tag[1:] {
				if p == o {
					return true
				}
			}
			return false
		}
		if tag[0] == "-" || !f.IsExported() {
			continue
		}
		if tag[0] == "" && (f.Anonymous || has("inline")) {
			_, inner := definition(f.Type)
			if inner == nil {
				inner = def
			}
			for _, sub := range fields(f.Type, inner) {
				// In protobuf they stand in a message of their own, if anywhere.
				sub.Number = 0
				all = append(all, sub)
			}
			continue
		}
		var prop *spec.Schema
		if def != nil {
			if p, ok := def.Properties[tag[0]]; ok {
				prop = &p
			}
		}
		n := &field{Name: tag[0], Number: number(f), Type: build(f.Type, prop), Strategy: f.Tag.Get("patchStrategy"), MergeKey: f.Tag.Get("patchMergeKey")}
		if has("omitempty") {
			n.Flags += "e"
		}
		if has("omitzero") {
			n.Flags += "z"
		}
		if f.Type.Kind() == reflect.Pointer {
			n.Flags += "p"
		}
		if def != nil {
			for _, r := range def.Required {
				if r == tag[0] {
					n.Flags += "r"
				}
			}
		}
		if prop != nil && prop.Default != nil {
			if s, ok := prop.Default.(string); !ok || s != "" {
				if m, ok := prop.Default.(map[string]interface{}); !ok || len(m) > 0 {
					n.Key = prop.Default
				}
			}
		}
		if seen := defaults[t][tag[0]]; len(seen) > 0 {
			same := true
			for _, d := range seen {
				same = same && reflect.DeepEqual(d, seen[0])
			}
			// A time is the moment of this run.
			if same && full(f.Type) != "k8s.io/apimachinery/pkg/apis/meta/v1.Time" && f.Type.String() != "*v1.Time" {
				n.Default = seen[0]
			}
		}
		all = append(all, n)
	}
	return all
}

// observe fills an object's structs, lets the scheme default it, and notes
// which scalars appeared.
func observe(scheme *runtime.Scheme, gvk schema.GroupVersionKind) {
	object, err := scheme.New(gvk)
	if err != nil {
		panic(err)
	}
	v := reflect.ValueOf(object).Elem()
	if v.Kind() != reflect.Struct {
		return
	}
	fill(v, map[reflect.Type]bool{})
	before := reflect.New(v.Type())
	before.Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
	func() {
		defer func() { recover() }()
		scheme.Default(object)
	}()
	note(before.Elem(), v)
}

func fill(v reflect.Value, on map[reflect.Type]bool) {
	t := v.Type()
	if _, ok := special[full(t)]; ok || on[t] {
		return
	}
	if v.Kind() != reflect.Struct {
		return
	}
	on[t] = true
	defer delete(on, t)
	for i := 0; i < t.NumField(); i++ {
		if !t.Field(i).IsExported() {
			continue
		}
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			fill(f, on)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !on[f.Type().Elem()]:
			if _, ok := special[full(f.Type().Elem())]; ok {
				continue
			}
			f.Set(reflect.New(f.Type().Elem()))
			fill(f.Elem(), on)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && !on[f.Type().Elem()]:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			fill(f.Index(0), on)
		}
	}
}

func note(before, after reflect.Value) {
	t := before.Type()
	if _, ok := special[full(t)]; ok || t.Kind() != reflect.Struct {
		return
	}
	for i := 0; i < t.NumField(); i++ {
		if !t.Field(i).IsExported() {
			continue
		}
		b, a := before.Field(i), after.Field(i)
		name := strings.Split(t.Field(i).Tag.Get("json"), ",")[0]
		if b.Kind() == reflect.Pointer && !b.IsNil() && !a.IsNil() {
			b, a = b.Elem(), a.Elem()
		}
		isStruct := b.Kind() == reflect.Struct && special[full(b.Type())] == ""
		switch {
		case isStruct:
			note(b, a)
		case b.Kind() == reflect.Slice && b.Len() > 0 && a.Len() > 0 && b.Index(0).Kind() == reflect.Struct:
			note(b.Index(0), a.Index(0))
		case name != "":
			if defaults[t] == nil {
				defaults[t] = map[string][]any{}
			}
			var value any
			if !reflect.DeepEqual(b.Interface(), a.Interface()) {
				text, _ := json.Marshal(a.Interface())
				json.Unmarshal(text, &value)
			}
			defaults[t][name] = append(defaults[t][name], value)
		}
	}
}
