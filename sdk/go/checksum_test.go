package a2s_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	a2s "github.com/a2s/core"
	"github.com/a2s/core/internal/strictjson"
)

// TestChecksumVectors computes the checksums of the vectors of docs/checksum.md that are JSON.
func TestChecksumVectors(t *testing.T) {
	var vectors []struct{ Name, Document, Canonical, Digest, Refused string }
	readTestJSON(t, "../../tests/fixtures/checksum/vectors.json", &vectors)
	tested := 0
	for _, v := range vectors {
		// A text that is not JSON is YAML. A text with an error must be refused as both.
		text := strings.TrimSpace(strings.TrimPrefix(v.Document, "\ufeff"))
		if !strings.HasPrefix(text, "{") || v.Refused == "" && !json.Valid([]byte(text)) {
			continue
		}
		tested++
		digest, err := a2s.ComputeChecksum([]byte(v.Document))
		if v.Refused != "" {
			if err == nil {
				t.Errorf("%s: accepted", v.Name)
			}
			continue
		}
		if err != nil || digest != v.Digest {
			t.Errorf("%s: %s, %v", v.Name, digest, err)
		}
		if canonical, err := a2s.Canonicalize([]byte(v.Document)); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		} else if _, has := parseAny(t, canonical).(map[string]any)["checksum"]; !has && string(canonical) != v.Canonical {
			t.Errorf("%s: %s", v.Name, canonical)
		}
	}
	if tested < 15 {
		t.Errorf("only %d vectors were tested", tested)
	}
}

func readTestJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestCanonicalizeRFC8785 canonicalizes the published test files of RFC 8785.
func TestCanonicalizeRFC8785(t *testing.T) {
	files, err := filepath.Glob("testdata/jcs/input/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no files", err)
	}
	for _, file := range files {
		input, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("testdata/jcs/output", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := a2s.Canonicalize(input)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %s, %v", file, got, err)
		}
	}
}

// TestCanonicalNumbers has the numbers of RFC 8785, appendix B, and those around the changes of notation.
func TestCanonicalNumbers(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		text := strconv.FormatFloat(math.Float64frombits(bits), 'g', -1, 64)
		got, err := a2s.Canonicalize([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%x: %s, not %s: %v", bits, got, want, err)
		}
	}
}

func TestCanonicalizeRefuses(t *testing.T) {
	deep := strings.Repeat("[", strictjson.MaxDepth+1) + strings.Repeat("]", strictjson.MaxDepth+1)
	for _, text := range []string{
		`{"a":1,"\u0061":2}`, `[{"b":{"c":1,"d":2,"c":1}}]`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx"`,
		`"\ud83d\u0041"`, "\"\xff\"", "\"\xed\xa0\x80\"", `1e400`, `-1e309`, `01`, `1.`, `.5`, `+1`, `-`, `1e`, `0x1`,
		`NaN`, `Infinity`, `{"a":1,}`, `[1,]`, `{a:1}`, `'a'`, "\"\t\"", `"\q"`, `"\u12"`, `"a`, `[1`, `{`, ``, ` `,
		`1 2`, `nul`, `{"a" 1}`, "\ufeff\ufeff{}", "{}\x00", deep,
		`{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"9":0}`,
	} {
		var syntax *strictjson.SyntaxError
		if got, err := a2s.Canonicalize([]byte(text)); !errors.As(err, &syntax) {
			t.Errorf("%.60q: %s, %v", text, got, err)
		}
	}
	limit := strings.Repeat("[", strictjson.MaxDepth) + strings.Repeat("]", strictjson.MaxDepth)
	if _, err := a2s.Canonicalize([]byte(limit)); err != nil {
		t.Error(err)
	}
	many := "[" + strings.Repeat("0,", strictjson.MaxValues) + "0]"
	if _, err := a2s.Canonicalize([]byte(many)); err == nil {
		t.Error("too many values are accepted")
	}
}

func TestComputeChecksumRefusesLargeIntegers(t *testing.T) {
	for text, good := range map[string]bool{
		`{"a":9007199254740991}`: true, `{"a":-9007199254740991.0}`: true, `{"a":1e-400}`: true,
		`{"a":9007199254740992}`: false, `{"a":[-1e16]}`: false, `{"a":9007199254740991.5}`: false,
	} {
		if _, err := a2s.ComputeChecksum([]byte(text)); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCanonicalProperties writes random values in random spellings, and compares their forms.
func TestCanonicalProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(8785, 1))
	for range 3000 {
		value := randomValue(random, 4)
		one, two := spell(random, value), spell(random, value)
		a, errA := a2s.Canonicalize([]byte(one))
		b, errB := a2s.Canonicalize([]byte(two))
		if errA != nil || errB != nil {
			t.Fatalf("%v, %v: %s and %s", errA, errB, one, two)
		}
		if string(a) != string(b) {
			t.Fatalf("%s and %s:\n%s\n%s", one, two, a, b)
		}
		if again, err := a2s.Canonicalize(a); err != nil || string(again) != string(a) {
			t.Fatalf("%s is not its own form %s: %v", a, again, err)
		}
		var read any
		if err := json.Unmarshal(a, &read); err != nil || !reflect.DeepEqual(read, parseAny(t, []byte(one))) {
			t.Fatalf("%s has another value than %s: %v", a, one, err)
		}
	}
}

// randomValue returns a value of the Go types of encoding/json.
func randomValue(random *rand.Rand, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch random.IntN(kinds) {
	case 0:
		return []any{nil, true, false}[random.IntN(3)]
	case 1, 2:
		return randomText(random)
	case 3:
		return randomNumber(random)
	case 4:
		list := make([]any, random.IntN(5))
		for i := range list {
			list[i] = randomValue(random, depth-1)
		}
		return list
	default:
		object := map[string]any{}
		for range random.IntN(12) {
			object[randomText(random)] = randomValue(random, depth-1)
		}
		return object
	}
}

func randomNumber(random *rand.Rand) float64 {
	if random.IntN(2) == 0 {
		return float64(random.IntN(2000) - 1000)
	}
	for {
		if f := math.Float64frombits(random.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
}

func randomText(random *rand.Rand) string {
	alphabet := []rune("ab\"\\/\b\f\n\r\t\x00\x1f\x7fé€\u2028\ud7ff\ue000\uffee\uffff😀𝄞")
	text := make([]rune, random.IntN(5))
	for i := range text {
		text[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(text)
}

// spell writes a value in one of its many spellings.
func spell(random *rand.Rand, value any) string {
	space := func() string { return []string{"", "", " ", "\n\t", "\r"}[random.IntN(5)] }
	var text string
	switch v := value.(type) {
	case string:
		text = spellText(random, v)
	case float64:
		text = spellNumber(random, v)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = spell(random, v[i])
		}
		text = "[" + space() + strings.Join(items, ",") + "]"
	case map[string]any:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(v)) { // the seed alone decides
			members = append(members, space()+spellText(random, name)+space()+":"+spell(random, v[name]))
		}
		random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		text = "{" + space() + strings.Join(members, ",") + "}"
	default:
		text = map[any]string{nil: "null", true: "true", false: "false"}[v]
	}
	return space() + text + space()
}

func spellNumber(random *rand.Rand, f float64) string {
	format := []byte{'g', 'e', 'E'}[random.IntN(3)]
	text := strconv.FormatFloat(f, format, []int{-1, 20}[random.IntN(2)], 64)
	if !strings.ContainsAny(text, ".eE") && random.IntN(2) == 0 {
		text += ".0"
	}
	return text
}

func spellText(random *rand.Rand, text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		switch {
		case r > 0xffff && random.IntN(2) == 0:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case r < ' ' || r == '"' || r == '\\' || r <= 0xffff && random.IntN(3) == 0:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func FuzzCanonicalize(f *testing.F) {
	for _, seed := range []string{`{"b":[1.0,-0,1e21,"\u20ac\ud83d\ude00"],"a":null}`, `[[[]]]`, `"\ud800"`, `1e400`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		form, err := a2s.Canonicalize(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Errorf("%q is accepted and is not JSON", text)
		}
		again, err := a2s.Canonicalize(form)
		if err != nil || string(again) != string(form) {
			t.Errorf("%q has the form %q, which has the form %q: %v", text, form, again, err)
		}
	})
}
