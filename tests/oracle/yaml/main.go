// Command yaml answers, line by line, what the Go YAML libraries make of a text.
//
// Each line of the input is an operation and a text in base64, each line of the output "ok " or "error " and a text in
// base64:
//
//	marshal JSON   the value as sigs.k8s.io/yaml writes it
//	v2 YAML        the first document as JSON, read by sigs.k8s.io/yaml (duplicate keys refused)
//	v3 YAML        the first document as JSON, read by the YAML package of kyaml
//
// With arguments, "yaml corpus DIR" writes the answers of a corpus: DIR/read.json is a list of YAML texts and
// DIR/read.out.json gets what both readers make of each; DIR/write.json is a list of values and DIR/write.out.json gets
// the text of each.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// marshal writes a JSON value as Marshal writes the same value held in Go: whole numbers as integers, others as float64.
func marshal(text []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return yaml.Marshal(numbers(value))
}

func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return value
}

// v2 reads the first document; the others must be readable too. Strict reading counts merged keys as duplicates, so a
// text with a merge key is read without it.
func v2(text []byte) ([]byte, error) {
	out, err := yaml.YAMLToJSONStrict(text)
	if err != nil && bytes.Contains(text, []byte("<<")) {
		out, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return nil, err
	}
	decoder := yamlv2.NewDecoder(bytes.NewReader(text))
	for {
		var rest any
		if err := decoder.Decode(&rest); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, err
		}
	}
}

func v3(text []byte) ([]byte, error) {
	decoder := kyaml.NewDecoder(bytes.NewReader(text))
	var first *kyaml.Node
	for {
		node := &kyaml.Node{}
		if err := decoder.Decode(node); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if first == nil {
			first = node
		}
	}
	if first == nil {
		return []byte("null"), nil
	}
	if len(first.Content) == 1 && first.Content[0].Kind == kyaml.MappingNode {
		object := map[string]any{}
		if err := first.Decode(&object); err != nil {
			return nil, err
		}
		return json.Marshal(object)
	}
	var value any
	if err := first.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func answer(op string, text []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	switch op {
	case "marshal":
		return marshal(text)
	case "v2":
		return v2(text)
	case "v3":
		return v3(text)
	}
	return nil, fmt.Errorf("unknown operation %q", op)
}

func serve() error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		op, encoded, _ := strings.Cut(in.Text(), " ")
		text, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return err
		}
		result, err := answer(op, text)
		if err != nil {
			fmt.Fprintln(out, "error", base64.StdEncoding.EncodeToString([]byte(err.Error())))
			continue
		}
		fmt.Fprintln(out, "ok", base64.StdEncoding.EncodeToString(result))
	}
	return in.Err()
}

// read writes what both readers make of each text; an error is written as the word "error" alone, because its text is
// the library's.
func read(dir string) error {
	var inputs []string
	if err := load(filepath.Join(dir, "read.json"), &inputs); err != nil {
		return err
	}
	type answers struct {
		In string `json:"in"`
		V2 any    `json:"v2"`
		V3 any    `json:"v3"`
	}
	outputs := make([]answers, len(inputs))
	for i, input := range inputs {
		outputs[i] = answers{input, reading("v2", input), reading("v3", input)}
	}
	return store(filepath.Join(dir, "read.out.json"), outputs)
}

func reading(op, input string) any {
	result, err := answer(op, []byte(input))
	if err != nil {
		return "error"
	}
	return map[string]any{"json": json.RawMessage(result)}
}

func write(dir string) error {
	var values []json.RawMessage
	if err := load(filepath.Join(dir, "write.json"), &values); err != nil {
		return err
	}
	outputs := make([]string, len(values))
	for i, value := range values {
		out, err := marshal(value)
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
		outputs[i] = string(out)
	}
	return store(filepath.Join(dir, "write.out.json"), outputs)
}

func load(name string, into any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func store(name string, value any) error {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return os.WriteFile(name, buffer.Bytes(), 0o644)
}

func main() {
	err := error(nil)
	if len(os.Args) == 3 && os.Args[1] == "corpus" {
		if err = read(os.Args[2]); err == nil {
			err = write(os.Args[2])
		}
	} else {
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
