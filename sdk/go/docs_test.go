package a2s_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a block of code of a page.
type block struct {
	place  string // page and line
	info   string
	text   string
	output *string // the block `text` directly after it
}

// TestDocs builds each block of Go of the pages, runs all of them with the real server, and compares
// what they print with the block `text` after them.
func TestDocs(t *testing.T) {
	folder := t.TempDir()
	module, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, folder, nil, "go", "mod", "init", "snippets")
	runIn(t, folder, nil, "go", "mod", "edit", "-go=1.23")
	environment := []string{"A2S_SOURCE=" + filepath.Dir(filepath.Dir(module)), "GOFLAGS=-mod=mod", "GOWORK=off"}
	var parts []block
	for _, page := range []string{"README.md", "../../docs/sdk-go.md"} {
		blocks := readBlocks(t, page)
		if len(blocks) == 0 {
			t.Errorf("%s has no block", page)
		}
		for _, b := range blocks {
			switch {
			case b.info == "sh":
				runIn(t, folder, environment, "bash", "-eo", "pipefail", "-c", b.text)
			case b.info == "sh types":
				w := openWorld(t)
				writeFile(t, filepath.Join(folder, "capabilities", "capabilities.go"), "")
				runIn(t, folder, []string{"A2S_URL=" + w.url, "A2S_TOKEN=" + w.token}, "bash", "-c",
					`a2s() { "$A2S_TEST_BIN" "$@"; }; `+b.text)
			case b.info == "go" && strings.HasPrefix(b.text, "package main"):
				t.Run(b.place, func(t *testing.T) { tryProgram(t, folder, environment, b) })
			case b.info == "go":
				parts = append(parts, b)
			}
		}
	}
	t.Run("parts", func(t *testing.T) { tryParts(t, folder, environment, parts) })
}

func runIn(t *testing.T, folder string, environment []string, name string, arguments ...string) string {
	t.Helper()
	command := exec.Command(name, arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), environment...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, arguments, err, out.String(), problems.String())
	}
	return out.String()
}

// readBlocks returns the blocks of a page.
func readBlocks(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	lines := strings.Split(string(text), "\n")
	follows := false
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "```") {
			follows = follows && lines[i] == ""
			continue
		}
		b := block{place: fmt.Sprintf("%s:%d", filepath.Base(page), i+1), info: strings.TrimPrefix(lines[i], "```")}
		for i++; lines[i] != "```"; i++ {
			b.text += lines[i] + "\n"
		}
		if b.info == "text" && follows {
			blocks[len(blocks)-1].output = &b.text
		} else {
			blocks = append(blocks, b)
		}
		follows = b.info == "go"
	}
	return blocks
}

func tryProgram(t *testing.T, folder string, environment []string, b block) {
	dir := filepath.Join(folder, strings.NewReplacer(".", "_", ":", "_").Replace(b.place))
	writeFile(t, filepath.Join(dir, "main.go"), b.text)
	runIn(t, dir, environment, "go", "build", "-o", os.DevNull, ".")
	w := openWorld(t)
	got := runIn(t, dir, append(environment, "A2S_URL="+w.url, "A2S_TOKEN="+w.token), "go", "run", ".")
	compareOutput(t, b, got)
}

func compareOutput(t *testing.T, b block, got string) {
	t.Helper()
	if b.output != nil && got != *b.output {
		t.Errorf("%s prints\n%sand should print\n%s", b.place, got, *b.output)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// between separates the outputs of the parts.
const between = "\x00\n"

// tryParts makes one program of all blocks that are parts of functions.
func tryParts(t *testing.T, folder string, environment []string, parts []block) {
	var functions, calls strings.Builder
	for i, b := range parts {
		hit := ""
		if regexp.MustCompile(`\bhit\b`).MatchString(b.text) && !strings.Contains(b.text, "hit := range") {
			hit = "found, err := registry.SearchCapabilities(ctx, \"list dog breeds\", nil)\n" +
				"if err != nil {\nreturn err\n}\nhit := found.Hits[0]\n_ = hit\n"
		}
		fmt.Fprintf(&functions, "// %s\nfunc part%d(ctx context.Context, registry *a2s.Registry) error {\n_ = ctx\n_ = registry\n%s{\n%s}\nreturn nil\n}\n\n",
			b.place, i, hit, b.text)
		fmt.Fprintf(&calls, "if err := part%d(ctx, a2s.NewRegistry(\"\")); err != nil {\nlog.Fatalf(\"%s: %%v\", err)\n}\nfmt.Print(%q)\n", i, b.place, between)
	}
	body := functions.String() + "func main() {\nctx := context.Background()\n" + calls.String() + "}\n"
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n")
	for _, name := range []string{"context", "errors", "fmt", "log", "net/http", "os", "time"} {
		if strings.Contains(body, filepath.Base(name)+".") {
			fmt.Fprintf(&source, "%q\n", name)
		}
	}
	source.WriteString("\na2s \"github.com/a2s/core\"\n\n\"snippets/capabilities\"\n)\n\n" + body)
	dir := filepath.Join(folder, "parts")
	writeFile(t, filepath.Join(dir, "main.go"), source.String())
	runIn(t, dir, environment, "go", "vet", ".")
	w := openWorld(t)
	out := runIn(t, dir, append(environment, "A2S_URL="+w.url, "A2S_TOKEN="+w.token), "go", "run", ".")
	outputs := strings.Split(out, between)
	if len(outputs) != len(parts)+1 {
		t.Fatalf("%d parts print %d times", len(parts), len(outputs)-1)
	}
	for i, b := range parts {
		compareOutput(t, b, outputs[i])
	}
}
