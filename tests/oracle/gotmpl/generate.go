package main

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"
)

// generator makes templates of a seed: most of them sound, some with a mistake in syntax or types.
type generator struct {
	*rand.Rand
	depth         int
	vars          []string
	loops         int
	names, blocks int
}

func newGenerator(seed int64) *generator {
	return &generator{Rand: rand.New(rand.NewSource(seed))}
}

func (g *generator) pick(from ...string) string { return from[g.Intn(len(from))] }

func (g *generator) option() string {
	if g.Intn(4) > 0 {
		return ""
	}
	return g.pick("default", "zero", "error")
}

func (g *generator) template() string {
	g.depth, g.vars, g.loops, g.names = 0, nil, 0, 0
	var b strings.Builder
	if g.Intn(5) == 0 {
		b.WriteString(g.definition())
	}
	for range 1 + g.Intn(4) {
		b.WriteString(g.node())
	}
	text := b.String()
	if g.Intn(16) == 0 {
		text = g.broken(text)
	}
	return text
}

// broken drops, doubles or inserts a piece.
func (g *generator) broken(text string) string {
	if len(text) < 4 {
		return text + "{{"
	}
	at := g.Intn(len(text) - 1)
	for text[at]&0xc0 == 0x80 {
		at--
	}
	switch g.Intn(3) {
	case 0:
		end := at + 1
		for end < len(text) && text[end]&0xc0 == 0x80 {
			end++
		}
		return text[:at] + text[end:]
	case 1:
		return text[:at] + g.pick("{{", "}}", "(", ")", "|", ".", "$", "\"", "'", "`", ":=", "-", ",", "end", "/*", "*/", "9a", "\n") + text[at:]
	default:
		return text[:at]
	}
}

func (g *generator) definition() string {
	name := "d" + strconv.Itoa(g.names)
	vars := g.vars
	g.vars = nil
	loops := g.loops
	g.loops = 0
	body := g.body()
	g.vars, g.loops = vars, loops
	g.names++ // not before: it does not call itself
	return fmt.Sprintf("{{define %q}}%s{{end}}", name, body)
}

func (g *generator) open() string  { return g.pick("{{", "{{", "{{", "{{- ", "{{ ") }
func (g *generator) close() string { return g.pick("}}", "}}", "}}", " -}}", " }}") }

func (g *generator) action(inner string) string { return g.open() + inner + g.close() }

func (g *generator) text() string {
	return g.pick("a", " b ", "\n", "  \n  ", "x\ty", "é", "} ", "{ ", "-", "<no value>", "")
}

func (g *generator) body() string {
	g.depth++
	defer func() { g.depth-- }()
	vars := len(g.vars)
	var b strings.Builder
	for range 1 + g.Intn(3) {
		b.WriteString(g.node())
	}
	g.vars = g.vars[:vars]
	return b.String()
}

func (g *generator) node() string {
	if g.depth > 3 {
		return g.text() + g.action(g.pipeline(1))
	}
	switch n := g.Intn(20); n {
	case 0, 1:
		return g.text()
	case 2:
		return g.pick("{{/* c */}}", "{{- /* c */ -}}", "{{/* a\nb */}}")
	case 3, 4:
		out := g.action("if "+g.pipeline(2)) + g.body()
		if g.Intn(3) == 0 {
			out += g.action("else if "+g.pipeline(2)) + g.body()
		}
		if g.Intn(2) == 0 {
			out += g.action("else") + g.body()
		}
		return out + g.action("end")
	case 5, 6:
		out := g.action("with "+g.declared("")) + g.body()
		if g.Intn(4) == 0 {
			out += g.action("else with "+g.pipeline(2)) + g.body()
		}
		if g.Intn(2) == 0 {
			out += g.action("else") + g.body()
		}
		return out + g.action("end")
	case 7, 8, 9:
		return g.loop()
	case 10:
		return g.action(g.declared("declare"))
	case 11:
		if len(g.vars) > 0 {
			return g.action(g.pick(g.vars...) + " = " + g.pipeline(2))
		}
		return g.text()
	case 12:
		if g.names > 0 {
			return g.action(fmt.Sprintf("template %q %s", "d"+strconv.Itoa(g.Intn(g.names)+g.Intn(8)/7), g.pick("", ".", g.operand(1))))
		}
		return g.action(fmt.Sprintf("block %q %s", g.block(), g.operand(1))) + "B" + g.action("end")
	default:
		return g.text() + g.action(g.pipeline(3))
	}
}

func (g *generator) newVar() string {
	name := g.pick("$x", "$y", "$z", "$v1")
	g.vars = append(g.vars, name)
	return name
}

func (g *generator) declared(how string) string {
	pipe := g.pipeline(2)
	if how == "declare" || g.Intn(4) == 0 {
		return g.newVar() + " := " + pipe
	}
	return pipe
}

func (g *generator) loop() string {
	over := g.field("list", "nums", "map", "emap", "elist", "users", "i", "strings", "bytes", "nil")
	if g.wild() {
		over = g.pick("3", g.operand(1))
	}
	vars := len(g.vars)
	switch g.Intn(4) {
	case 0:
		over = g.newVar() + " := " + over
	case 1:
		over = g.newVar() + ", " + g.newVar() + " := " + over
	}
	g.loops++
	body := g.body()
	if g.Intn(4) == 0 {
		body += g.action("if "+g.pipeline(1)) + g.action(g.pick("break", "continue")) + g.action("end") + g.body()
	}
	g.loops--
	g.vars = g.vars[:vars]
	out := g.action("range "+over) + body
	if g.Intn(3) == 0 {
		out += g.action("else") + g.body()
	}
	return out + g.action("end")
}

func (g *generator) pipeline(depth int) string {
	out := g.command(depth)
	for g.Intn(4) == 0 {
		out += " | " + g.filter()
	}
	return out
}

func (g *generator) filter() string {
	if g.wild() {
		return g.pick("len", "eq "+g.literal(), "index "+g.operand(0), "lt 2", "slice \"abc\" 1")
	}
	return g.pick("print", "println", "printf \"%v\"", "printf \"%q\"", "printf \"%s|%d\" 3", "not", "html", "js", "urlquery",
		"and "+g.literal(), "or "+g.literal(), "printf "+g.format())
}

// wild says whether to take anything, whatever its type.
func (g *generator) wild() bool { return g.Intn(14) == 0 }

// field is a field of the data, which stands behind `$` where the dot is something else.
func (g *generator) field(names ...string) string {
	if g.depth == 0 || g.Intn(30) == 0 {
		return "." + g.pick(names...)
	}
	return "$." + g.pick(names...)
}

func (g *generator) of(depth int, kind string) string {
	if g.wild() {
		return g.operand(depth)
	}
	switch kind {
	case "int":
		return g.pick("1", "0", "-3", "42", "0x1F", "'a'", g.field("i", "zero", "neg", "i64", "users"), g.field("i", "map.a", "neg"), "(len "+g.of(0, "sized")+")")
	case "index":
		return g.pick("0", "1", "2", "1", g.field("zero"))
	case "string":
		return g.pick(`"str"`, `""`, "`raw`", g.field("name", "empty", "uni", "html", "multi", "map.c.deep.er"), "(print "+g.of(0, "any")+")")
	case "float":
		return g.pick("2.5", "1e3", "-0.5", g.field("pi", "one", "big", "million", "small", "negf"))
	case "bool":
		return g.pick("true", "false", g.field("t", "f"), "(not "+g.of(0, "any")+")")
	case "list":
		return g.field("list", "nums", "strings", "elist", "users", "bytes")
	case "sized":
		return g.pick(g.field("map", "emap", "map.c"), g.of(0, "list"), g.field("name", "uni"))
	}
	if depth > 0 && g.Intn(3) == 0 {
		return "(" + g.command(depth-1) + ")"
	}
	return g.of(0, g.pick("int", "string", "float", "bool", "list", "sized"))
}

func (g *generator) command(depth int) string {
	if depth == 0 || g.Intn(3) == 0 {
		return g.of(depth, "any")
	}
	a := func(kind string) string { return g.of(depth-1, kind) }
	switch g.Intn(12) {
	case 0:
		return g.pick("and", "or") + " " + a("any") + " " + a("any")
	case 1:
		return "not " + a("any")
	case 2, 3:
		kind := g.pick("int", "string", "float")
		return g.pick("eq", "ne", "lt", "le", "gt", "ge") + " " + a(kind) + " " + a(kind)
	case 4:
		kind := g.pick("int", "string", "float", "bool")
		return "eq " + a(kind) + " " + a(kind) + " " + a(kind)
	case 5:
		return "len " + a("sized")
	case 6:
		if g.Intn(3) == 0 {
			return "index " + g.field("map", "emap", "map.c") + " " + g.pick(`"a"`, `"b"`, `"zz"`, a("string"))
		}
		return "index " + a("list") + " " + a("index")
	case 7:
		return "slice " + g.pick(a("list"), g.field("name", "uni")) + " " + g.pick("1", "0", "2 3", "1 2", "1 2 3", a("index"))
	case 8, 9, 10:
		return "printf " + g.format() + " " + a("any") + g.pick("", " "+a("any"), " "+a("int")+" "+a("any"))
	default:
		return g.pick("print", "println", "html", "js", "urlquery") + " " + a("any") + g.pick("", " "+a("any"))
	}
}

func (g *generator) format() string {
	var b strings.Builder
	for range 1 + g.Intn(2) {
		b.WriteString(g.pick("", "", "<", "a ", "%%"))
		b.WriteString("%" + g.pick("", "", "", "+", "-", "#", "0", " ", "+0", "-0", "# "))
		b.WriteString(g.pick("", "", "", "5", "12", "2", "[1]", "[2]", "*"))
		b.WriteString(g.pick("", "", "", ".2", ".0", ".10", "."))
		b.WriteString(g.pick("v", "v", "v", "s", "s", "q", "d", "d", "x", "X", "t", "f", "e", "g", "G", "c", "U", "b", "o", "O", "T", "E", "z", "!"))
	}
	return strconv.Quote(b.String())
}

func (g *generator) operand(depth int) string {
	if len(g.vars) > 0 && g.Intn(3) == 0 {
		return g.pick(g.vars...) + g.pick("", "", "", "", "", "", ".name")
	}
	if depth > 0 && g.Intn(4) == 0 {
		return "(" + g.command(depth-1) + ")" + g.pick("", "", "", ".name", ".k")
	}
	switch g.Intn(5) {
	case 0:
		return g.literal()
	case 1:
		return g.pick(".", "$", "$.name", "$.map.a", "$.i")
	default:
		return "." + g.pick("name", "empty", "uni", "html", "multi", "t", "f", "nil", "i", "zero", "neg", "i64", "u8", "pi", "one", "big",
			"million", "small", "negf", "bytes", "strings", "list", "nums", "elist", "map", "emap", "users",
			"map.a", "map.c.deep.er", "map.c.n", "map.c.n.x", "map.nope", "nope", "nope.x", "name.x", "i.x", "list.x", "nil.x", "map.c.deep", "age", "a")
	}
}

func (g *generator) literal() string {
	return g.pick("1", "0", "-3", "2.5", "1e3", "0x1F", "0b101", "0o17", "'a'", "'\\n'", `"str"`, `""`, "`raw`", `"q\"\t\u00e9"`,
		"true", "false", "nil", "42", "1.0", "1_2", "1e19", ".5", "'☃'", "0x1p4")
}

// block is a name that no other template has.
func (g *generator) block() string {
	g.blocks++
	return "b" + strconv.Itoa(g.blocks)
}
