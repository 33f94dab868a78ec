package a2s_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	a2s "github.com/a2s/core"
)

// honestDocument has every kind of value that a mutation may change.
const honestDocument = `{
 "a2s": "1.1.0", "name": "ReadWeather", "version": "1.0.0", "description": "Reads the weather in é and \u20ac",
 "checksum": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
 "limits": {"minutes": 2.5, "calls": 16, "none": null, "small": 1e-7, "zero": 0}, "tags": ["b", "a", "b", 1, true],
 "parameters": [{"name": "city", "secret": false, "default": "Paris"}, {"name": "days", "default": 3}],
 "execution": {"type": "sequence", "steps": [{"id": "read", "checksum": "x", "task": {"paths": {"/\ud83d\ude00": {}}}}]}
}`

// TestLyingServer serves 1,000 mutations of a document. The SDK must refuse each one that changes the
// canonical form, and accept every other.
func TestLyingServer(t *testing.T) {
	served := honestDocument
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, served)
	}))
	defer server.Close()
	registry := a2s.NewRegistry(server.URL, a2s.WithToken("t"))
	checksum, err := a2s.ComputeChecksum([]byte(honestDocument))
	if err != nil {
		t.Fatal(err)
	}
	hit := a2s.SearchHit{Name: "ReadWeather", Version: "1.0.0", Checksum: checksum}
	honest := content(t, honestDocument)

	random := rand.New(rand.NewPCG(33, 1000))
	refused, mismatches, accepted := 0, 0, 0
	for i := range 1000 {
		mutation := mutations[i%len(mutations)]
		served = mutation.apply(random, honestDocument)
		lie := mutation.invalid || !reflect.DeepEqual(content(t, served), honest)
		_, err := registry.VerifyChecksum(context.Background(), hit)
		if lie {
			refused++
			if err == nil {
				t.Fatalf("%s: accepted\n%s", mutation.name, served)
			}
			var mismatch *a2s.ChecksumMismatch
			if errors.As(err, &mismatch) {
				mismatches++
			}
			continue
		}
		accepted++
		if err != nil {
			t.Fatalf("%s: %v\n%s", mutation.name, err, served)
		}
	}
	t.Logf("%d mutations were refused, %d of them for their checksum, and %d accepted", refused, mismatches, accepted)
	if mismatches < 200 || accepted < 200 {
		t.Error("the mutations are of one kind")
	}
}

// content returns what a document means, read by another parser than that of the SDK.
func content(t *testing.T, document string) map[string]any {
	t.Helper()
	object := parseAny(t, []byte(document)).(map[string]any)
	delete(object, "checksum")
	return object
}

var mutations = []struct {
	name    string
	invalid bool // readers would understand the text differently
	apply   func(random *rand.Rand, document string) string
}{
	{"another spelling", false, func(random *rand.Rand, document string) string {
		var value any
		_ = json.Unmarshal([]byte(document), &value)
		return spell(random, value)
	}},
	{"another checksum inside", false, func(random *rand.Rand, document string) string {
		return strings.Replace(document, "sha256:0000", fmt.Sprintf("sha256:%04d", random.IntN(10000)), 1)
	}},
	{"a changed value", false, func(random *rand.Rand, document string) string {
		return change(random, document, func(parent map[string]any, name string) {
			parent[name] = lieValue(random)
		})
	}},
	{"a removed member", false, func(random *rand.Rand, document string) string {
		return change(random, document, func(parent map[string]any, name string) { delete(parent, name) })
	}},
	{"a new member", false, func(random *rand.Rand, document string) string {
		return change(random, document, func(parent map[string]any, _ string) {
			parent["x"+randomText(random)] = lieValue(random)
		})
	}},
	{"white space", false, func(random *rand.Rand, document string) string {
		parts := strings.SplitAfter(document, ",")
		parts[random.IntN(len(parts))] += strings.Repeat(" \r\n\t", random.IntN(5))
		return strings.Join(parts, "")
	}},
	{"spellings of numbers and escapes", false, func(random *rand.Rand, document string) string {
		pairs := [][2]string{{"2.5", "25e-1"}, {"16", "16.0"}, {"1e-7", "0.0000001"}, {": 0}", ": -0}"}, {"é", `\u00e9`}, {`\u20ac`, "€"}, {`\ud83d\ude00`, "😀"}}
		pair := pairs[random.IntN(len(pairs))]
		return strings.Replace(document, pair[0], pair[1], 1)
	}},
	{"another order of a list", false, func(random *rand.Rand, document string) string {
		return strings.Replace(document, `"b", "a"`, []string{`"a", "b"`, `"b" , "a"`}[random.IntN(2)], 1)
	}},
	{"a member twice", true, func(random *rand.Rand, document string) string {
		names := []string{"name", "version", "execution", "checksum"}
		return strings.Replace(document, "{", fmt.Sprintf("{%q: 1,", names[random.IntN(len(names))]), 1)
	}},
	{"half of a pair, or bytes that are not UTF-8", true, func(random *rand.Rand, document string) string {
		return strings.Replace(document, "Paris", []string{`\ud83d`, "\xff", `\ude00\ud83d`}[random.IntN(3)], 1)
	}},
	{"numbers that are not numbers", true, func(random *rand.Rand, document string) string {
		return strings.Replace(document, "16", []string{"1e400", "016", "+16", "0x10", "16."}[random.IntN(5)], 1)
	}},
}

// lieValue returns a value that a document may have. It may not have large integers.
func lieValue(random *rand.Rand) any {
	values := []any{nil, true, float64(random.IntN(20)), 0.5, randomText(random), []any{}, map[string]any{"a": 1.0}}
	return values[random.IntN(len(values))]
}

// change applies a change to a random member of a random object.
func change(random *rand.Rand, document string, apply func(parent map[string]any, name string)) string {
	var root map[string]any
	_ = json.Unmarshal([]byte(document), &root)
	type place struct {
		parent map[string]any
		name   string
	}
	var places []place
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) { // the seed alone decides
				places = append(places, place{v, name})
				walk(v[name])
			}
		}
	}
	walk(root)
	chosen := places[random.IntN(len(places))]
	apply(chosen.parent, chosen.name)
	text, _ := json.Marshal(root)
	return string(text)
}
