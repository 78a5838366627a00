package main

import (
	"fmt"
	"math/rand"
	"strings"
)

// generator makes a chart of a seed: subcharts in subcharts, aliases, conditions, tags, imports, globals, nulls.
type generator struct {
	*rand.Rand
	files map[string]string
}

func generate(seed int64) chartCase {
	g := &generator{rand.New(rand.NewSource(seed)), map[string]string{}}
	g.chart("", "top", 0)
	return chartCase{Name: fmt.Sprintf("seed-%d", seed), Files: g.files, Values: g.user()}
}

func (g *generator) pick(from ...string) string { return from[g.Intn(len(from))] }

func (g *generator) chance(of int) bool { return g.Intn(of) == 0 }

func (g *generator) chart(at, name string, depth int) {
	var y strings.Builder
	fmt.Fprintf(&y, "apiVersion: %s\nname: %s\nversion: %s\n", g.pick("v2", "v2", "v2", "v1"), name, g.pick("1.0.0", "1.2.3", "0.1.0-rc.1"))
	if g.chance(3) {
		fmt.Fprintf(&y, "appVersion: %s\n", g.pick("\"1.0\"", "1.10", "v3", "2024-01-01", "true"))
	}
	if depth > 0 && g.chance(8) {
		y.WriteString("type: library\n")
	}
	if g.chance(6) {
		fmt.Fprintf(&y, "kubeVersion: %q\n", g.pick(">=1.20.0-0", "^1.34", "< 1.40", ">1.20 <1.40 || 2.x", "1.34.x", ">= 1.50"))
	}
	if g.chance(5) {
		y.WriteString("keywords: [a, b]\nmaintainers: [{name: Ann, email: a@example.com}]\nannotations: {x: \"1\", y: z}\n")
	}
	subs := 0
	if depth < 2 {
		subs = g.Intn(4 - depth)
	}
	for i := range subs {
		if i == 0 {
			y.WriteString("dependencies:\n")
		}
		sub := fmt.Sprintf("s%d%d", depth, i)
		g.chart(at+"charts/"+sub+"/", sub, depth+1)
		g.dependency(&y, sub)
	}
	g.files[at+"Chart.yaml"] = y.String()
	g.files[at+"values.yaml"] = g.table(0, false)
	g.templates(at, name)
}

func (g *generator) dependency(y *strings.Builder, sub string) {
	if g.chance(8) {
		return
	}
	times := 1
	if g.chance(6) {
		times = 2
	}
	for i := range times {
		fmt.Fprintf(y, "- name: %s\n  version: %q\n  repository: \"\"\n", sub, g.pick("*", ">=0.0.0-0", "^1", "~1.2", "1.x", "0.1.0-rc.1"))
		if i > 0 || g.chance(4) {
			fmt.Fprintf(y, "  alias: %s\n", g.pick("ali", "b", "global2", sub+"-x"))
		}
		if g.chance(3) {
			fmt.Fprintf(y, "  condition: %s\n", g.pick(sub+".enabled", "on", "a.on", "a.off,on", sub+".a.on", "off"))
		}
		if g.chance(4) {
			fmt.Fprintf(y, "  tags: [%s]\n", g.pick("front", "back", "front, back"))
		}
		if g.chance(4) {
			fmt.Fprintf(y, "  import-values: [%s]\n", g.pick("data", "{child: a, parent: b}", "{child: a, parent: a}", "data, {child: exports.data, parent: c.d}", "{child: missing, parent: a}"))
		}
	}
}

// table is a mapping in YAML with keys that charts and subcharts share.
func (g *generator) table(depth int, user bool) string {
	indent := strings.Repeat("  ", depth)
	var y strings.Builder
	keys := []string{"a", "b", "c", "global", "on", "off", "enabled", "s00", "s01", "s10", "s11", "ali", "tags", "exports"}
	for _, key := range keys {
		if !g.chance(3) {
			continue
		}
		fmt.Fprintf(&y, "%s%s:", indent, key)
		switch {
		case key == "on" || key == "off" || key == "enabled":
			fmt.Fprintf(&y, " %s\n", g.pick("true", "false", "false", "\"true\"", "null"))
		case key == "tags":
			fmt.Fprintf(&y, " {front: %s, back: %s}\n", g.pick("true", "false", "null"), g.pick("true", "false"))
		case key == "exports":
			fmt.Fprintf(&y, "\n%s  data:\n%s", indent, g.filled(depth+2, user))
		case depth < 3 && (key[0] == 's' || key == "ali" || key == "global" || g.chance(2)):
			if user && g.chance(12) {
				fmt.Fprintf(&y, " %s\n", g.pick("null", "text", "[1]"))
				continue
			}
			y.WriteString("\n" + g.filled(depth+1, user))
		default:
			fmt.Fprintf(&y, " %s\n", g.pick("1", "1.5", "text", "null", "null", "~", "[1, {a: 2}, null]", "\"\"", "1000000", "yes", "0x1f", "2001-01-01", "{}", "[]", "{a: null}"))
		}
	}
	if y.Len() == 0 && depth == 0 {
		return "{}\n"
	}
	return y.String()
}

// filled is a table that has something in it.
func (g *generator) filled(depth int, user bool) string {
	if text := g.table(depth, user); text != "" {
		return text
	}
	return strings.Repeat("  ", depth) + "x: " + g.pick("1", "null", "t") + "\n"
}

func (g *generator) user() string {
	if g.chance(4) {
		return ""
	}
	return g.table(0, true)
}

func (g *generator) templates(at, name string) {
	folder := at + "templates/"
	g.files[folder+"values.yaml"] = g.head("ConfigMap", name) + "data:\n  values: |\n    {{- toYaml .Values | nindent 4 }}\n"
	if g.chance(3) {
		g.files[folder+"_helpers.tpl"] = fmt.Sprintf("{{ define %q }}%s of {{ .Chart.Name }}{{ end }}", g.pick("shared", name+".own"), name)
		g.files[folder+"uses.yaml"] = g.head("Secret", name) + fmt.Sprintf("stringData:\n  x: {{ include %q . | quote }}\n", g.pick("shared", "shared", name+".own"))
	}
	if g.chance(3) {
		g.files[folder+"many.yaml"] = g.documents(name)
	}
	if g.chance(4) {
		g.files[folder+g.pick("a.yaml", "sub/b.yaml", "z.txt", "NOTES.txt", "j.json")] = g.head(g.pick("Service", "Deployment", "Unknown", "MutatingWebhookConfiguration", "Ingress", "Namespace"), name) + "# {{ .Template.Name }} {{ .Template.BasePath }}\nspec:\n  chart: {{ .Chart.Name }}-{{ .Chart.Version }}\n  app: {{ .Chart.AppVersion | quote }}\n  root: {{ .Chart.IsRoot }}\n  deps: {{ len .Chart.Dependencies }}\n  subs: {{ keys .Subcharts | sortAlpha | join \",\" }}\n"
	}
	if g.chance(6) {
		g.files[folder+"set.yaml"] = "{{- if kindIs \"map\" .Values.global }}{{ $_ := set .Values.global \"seen\" .Chart.Name }}{{ end -}}\n{{- $_ := set .Values \"own\" .Chart.Name -}}\n" + g.head("ConfigMap", name+"-set") + "data:\n  g: {{ .Values.global | toJson | quote }}\n"
	}
	if g.chance(6) {
		g.files[folder+"tpl.yaml"] = g.head("ConfigMap", name+"-tpl") + "data:\n  t: {{ tpl " + g.pick("\"{{ .Values.a }}\"", "\"{{ .Chart.Name }}-{{ .Release.Name }}\"", "\"{{ include \\\"shared\\\" . }}\"", "(.Values.b | toString)") + " . | quote }}\n"
	}
	if g.chance(6) {
		g.files[at+"files/one.txt"] = "one {{ not a template }}\n"
		g.files[at+"files/two.bin"] = "a\nb"
		g.files[folder+"files.yaml"] = g.head("ConfigMap", name+"-files") + "data:\n  {{- (.Files.Glob " + g.pick("\"files/*\"", "\"**.txt\"", "\"files/{one,two}.*\"", "\"files/[!o]*\"") + ").AsConfig | nindent 2 }}\n  get: {{ .Files.Get \"files/one.txt\" | quote }}\n  lines: {{ .Files.Lines \"files/two.bin\" | toJson }}\n"
	}
	if g.chance(6) {
		g.files[at+"crds/"+g.pick("a.yaml", "b.yml", "c.json", "d.txt")] = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + name + "\n" + g.pick("", "---\n", "\n\n")
	}
	if g.chance(10) {
		g.files[at+"values.schema.json"] = g.pick(`{"properties": {"a": {"type": ["object", "string", "null", "number"]}}}`, `{"required": ["global"]}`, `{"properties": {"b": {"type": "string"}}}`, `{"additionalProperties": true, "properties": {"c": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"not": {"type": "boolean"}}}}`)
	}
}

func (g *generator) head(kind, name string) string {
	return "apiVersion: v1\nkind: " + kind + "\nmetadata:\n  name: " + name + "\n"
}

// documents are several in a file, with hooks and separators of all kinds.
func (g *generator) documents(name string) string {
	var y strings.Builder
	for range 1 + g.Intn(4) {
		y.WriteString(g.pick("---\n", "---\n", "--- \n", "\n---\n# a comment\n", "---\n---\n", "# only a comment\n---\n", "\n\n---\n\n"))
		switch g.Intn(6) {
		case 0:
			y.WriteString("{{ if .Values.on }}\n" + g.head("Job", name) + "{{ end }}\n")
		case 1:
			y.WriteString(g.head(g.pick("Job", "Pod", "ConfigMap"), name+"-hook") + "  annotations:\n    helm.sh/hook: " + g.pick("pre-install", "post-install,pre-upgrade", "test", "test-success", "no-such-hook", "Pre-Install , test") + "\n    helm.sh/hook-weight: \"" + g.pick("1", "-5", "x") + "\"\n")
		case 2:
			y.WriteString(g.head(g.pick("RoleBinding", "ClusterRole", "Zebra", "APIService", "CronJob", "StorageClass"), name))
		case 3:
			y.WriteString(g.head("ConfigMap", name) + "data:\n  text: |\n    line\n\n  \n")
		case 4:
			y.WriteString("  apiVersion: v1\n  kind: Service\n  metadata: {name: x}\n")
		default:
			y.WriteString(g.head("Service", name) + g.pick("", "\n", "\n\n\n", "   \n"))
		}
	}
	return y.String()
}
