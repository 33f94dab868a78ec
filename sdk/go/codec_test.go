package a2s

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestMarshalKeepsMembers checks that values leave as they came.
func TestMarshalKeepsMembers(t *testing.T) {
	for _, test := range []struct {
		into any
		text string
	}{
		{&SearchHit{}, `{"name":"X","success_rate":null,"usage_count":0,"new":{"a":[1.0,null]},"match":"","parameters":null}`},
		{&SearchHit{}, `{}`},
		{&RunRecord{}, `{"id":"r","output":null,"started_at":"2026-01-02T03:04:05.120+00:00","finished_at":null,"error":null}`},
		{&RunRecord{}, `{"output":{"tweet":12345678901234567890,"html":"<a & b>"},"steps":[{"step":"s","more":true}]}`},
		{&PlanResponse{}, `{"hosts":{"a.example":null,"b.example":"http://127.0.0.1"},"steps":[{"type":"task","step":"s",
			"preview":{"type":"each","items":[{"step":"t","preview":{"type":"later","x":1}}]},"catch":[],"tool":null}]}`},
		{&PlanResponse{}, `{"steps":[{"type":"loop","step":"s","timeout_ms":null,"body":[{"type":"task"}]}]}`},
		{&Diagnostic{}, `{"line":1,"column":0,"code":"c","severity":"error","message":"m","path":""}`},
		{&SearchFilters{}, `{"permissions":[],"read_only":false}`},
		{&SearchRequest{}, `{"strategy":[{"successRate":1,"minimum":{"success_rate":0.5}},"most_similar"]}`},
	} {
		if err := json.Unmarshal([]byte(test.text), test.into); err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got := mustMarshal(t, test.into); !sameJSON(t, got, []byte(test.text)) {
			t.Errorf("%s became %s", test.text, got)
		}
	}
}

func mustMarshal(t *testing.T, value any) []byte {
	t.Helper()
	text, err := marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	one, err := Canonicalize(a)
	if err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	two, err := Canonicalize(b)
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return bytes.Equal(one, two)
}

// TestMarshalFollowsTheFields checks that a field which a program changes counts more than what came.
func TestMarshalFollowsTheFields(t *testing.T) {
	var hit SearchHit
	if err := json.Unmarshal([]byte(`{"name":"X","success_rate":null,"contradiction":"Y","new":1}`), &hit); err != nil {
		t.Fatal(err)
	}
	rate := 0.5
	hit.SuccessRate, hit.Contradiction, hit.Version = &rate, "", "1.0.0"
	want := `{"name":"X","version":"1.0.0","success_rate":0.5,"new":1}`
	if got := mustMarshal(t, hit); !sameJSON(t, got, []byte(want)) {
		t.Errorf("%s", got)
	}
	request := ExecutionRequest{Name: "X", Inputs: Values{}, Lock: []CapabilityRef{{Name: "Y"}}}
	want = `{"name":"X","inputs":{},"lock":[{"name":"Y","version":"","checksum":""}]}`
	if got := mustMarshal(t, request); !sameJSON(t, got, []byte(want)) {
		t.Errorf("%s", got)
	}
	want = `{"kind":"bearer","token":"<t>"}`
	if got := mustMarshal(t, &CredentialBearer{Token: "<t>"}); string(got) != want {
		t.Errorf("%s", got)
	}
	if got := mustMarshal(t, CredentialUsers{Subjects: []string{}}); string(got) != `{"subjects":[]}` {
		t.Errorf("%s", got)
	}
	if got := mustMarshal(t, AgentAction{}); !strings.Contains(string(got), `"requests":[]`) {
		t.Errorf("a list that the API requires is missing: %s", got)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for text, into := range map[string]any{
		`{"name":1}`:                           &SearchHit{},
		`[]`:                                   &SearchHit{},
		`{"name":"a","name":"b"}`:              &SearchHit{},
		`{"usage_count":1.5}`:                  &SearchHit{},
		`{"usage_count":99999999999999999999}`: &SearchHit{},
		`{"parameters":[null]}`:                &SearchHit{},
		`{"parameters":{}}`:                    &SearchHit{},
		`{"extracted":[]}`:                     &SearchHit{},
		`{"started_at":"yesterday"}`:           &RunRecord{},
		`{"steps":[{"step":"s"}]}`:             &PlanResponse{},
		`{"steps":[{"type":7}]}`:               &PlanResponse{},
		`{"strategy":7}`:                       &SearchRequest{},
		`{"strategy":[[7]]}`:                   &SearchRequest{},
	} {
		if err := json.Unmarshal([]byte(text), into); err == nil {
			t.Errorf("%s is accepted as %+v", text, into)
		}
	}
}

func TestValuesKeepDigits(t *testing.T) {
	var values Values
	if err := json.Unmarshal([]byte(`{"id":12345678901234567890,"list":[true,null]}`), &values); err != nil {
		t.Fatal(err)
	}
	want := Values{"id": json.Number("12345678901234567890"), "list": []any{true, nil}}
	if !reflect.DeepEqual(values, want) {
		t.Errorf("%#v", values)
	}
}

// TestUnions checks that each union knows its variants, and each variant its tag.
func TestUnions(t *testing.T) {
	for union, cases := range unions {
		for value, variant := range cases.variants {
			instance := reflect.New(variant)
			if !instance.Type().Implements(union) {
				t.Errorf("%v is no %v", variant, union)
			}
			property, tag := instance.Interface().(tagged).discriminator()
			if property != cases.property || tag != value {
				t.Errorf("%v has the tag %s %s", variant, property, tag)
			}
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	for tag := range unions[reflect.TypeFor[Event]()].variants {
		f.Add([]byte(`{"v":1,"seq":2,"run":"r","at":"2026-01-02T03:04:05.10Z","type":"` + tag + `","step":"s","error":null,"x":[1e2]}`))
	}
	f.Add([]byte(`{"type":"new","seq":null,"at":"2026-01-02T03:04:05Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		event, err := ParseEvent(text)
		if err != nil {
			return
		}
		if got := mustMarshal(t, event); !sameJSON(t, got, text) {
			t.Errorf("%s became %s", text, got)
		}
		event.Base().Seq++ // the base is that of the event
		if again := mustMarshal(t, event); sameJSON(t, again, text) {
			t.Errorf("a change of %s is lost: %s", text, again)
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte("\ufeff: c\r\nid: 1\r\nevent: e\r\ndata: a\r\ndata:b\r\n\r\n"), 3)
	f.Add([]byte("data\n\ndata: x\n\nid:2\n\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, chunk int) {
		whole := readMessages(t, bytes.NewReader(text))
		parts := readMessages(t, &chunks{text, max(1, chunk%17)})
		if !reflect.DeepEqual(whole, parts) {
			t.Errorf("%q: %v and %v", text, whole, parts)
		}
	})
}
