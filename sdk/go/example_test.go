package a2s_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	a2s "github.com/a2s/core"
)

// exampleRegistry answers like a real A2S would.
func exampleRegistry(answers map[string]string) (*a2s.Registry, func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.Method+" "+r.URL.RequestURI()]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"code":"A2S220","detail":"unknown capability"}`
		}
		fmt.Fprint(w, answer)
	}))
	return a2s.NewRegistry(server.URL), server.Close
}

const exampleRun = `{"id":"0199c82c-c002-7100-8000-000000000001","status":"waiting","name":"GetJoke","version":"1.0.0",
 "checksum":"sha256:70b6","started_at":"2026-01-02T03:04:05Z",
 "approvals":[{"step":"tellJoke","id":"991cf7a77a0a","guardian":"builtin"}],
 "error":{"code":"A2S346","message":"a person must approve the request","hint":"","repeat_safe":true}}`

func ExampleRegistry_SearchCapabilities() {
	registry, stop := exampleRegistry(map[string]string{"POST /v1/search": `{
		"capabilities": [{"name": "ListDogBreeds", "version": "1.0.0", "checksum": "sha256:0725", "score": 0.97, "match": "strong"}],
		"metadata": {"total_matches": 1, "search_time_ms": 4.7}}`})
	defer stop()
	found, err := registry.SearchCapabilities(context.Background(), "which kinds of dogs are there", &a2s.SearchOptions{
		Limit:    1,
		Strategy: a2s.MostReliable,
		Filters:  &a2s.SearchFilters{ReadOnly: true},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, hit := range found.Hits {
		fmt.Println(hit.Name, hit.Version, hit.Score, hit.Match)
	}
	// Output: ListDogBreeds 1.0.0 0.97 strong
}

func ExampleRegistry_VerifyChecksum() {
	registry, stop := exampleRegistry(map[string]string{
		"GET /v1/capabilities/SayHello/1.0.0": `{"name": "SayHello", "version": "1.0.0", "description": "Not what was found"}`,
	})
	defer stop()
	hit := a2s.CapabilityRef{Name: "SayHello", Version: "1.0.0", Checksum: "sha256:d4e0"}
	_, err := registry.VerifyChecksum(context.Background(), hit)
	var mismatch *a2s.ChecksumMismatch
	if errors.As(err, &mismatch) {
		fmt.Println("expected", mismatch.Expected)
		fmt.Println("computed", mismatch.Computed[:11])
	}
	// Output:
	// expected sha256:d4e0
	// computed sha256:12d7
}

func ExampleRegistry_ListCapabilities() {
	registry, stop := exampleRegistry(map[string]string{
		"GET /v1/capabilities?limit=1":                    `{"capabilities": [{"name": "CheckGrammar"}], "next": "CheckGrammar"}`,
		"GET /v1/capabilities?after=CheckGrammar&limit=1": `{"capabilities": [{"name": "GetJoke"}]}`,
	})
	defer stop()
	for summary, err := range registry.ListCapabilities(context.Background(), &a2s.PageOptions{Limit: 1}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(summary.Name)
	}
	// Output:
	// CheckGrammar
	// GetJoke
}

func ExampleNeedsApproval() {
	registry, stop := exampleRegistry(map[string]string{"POST /v1/executions": exampleRun})
	defer stop()
	_, err := registry.Run(context.Background(), a2s.Name("GetJoke"), nil)
	var needs *a2s.NeedsApproval
	if errors.As(err, &needs) {
		fmt.Println(needs.Run.Status, needs.Approvals[0].ID)
		// needs.Wait(ctx) waits for the decision.
	}
	// Output: waiting 991cf7a77a0a
}

func ExampleParseEvent() {
	event, err := a2s.ParseEvent([]byte(`{"v":1,"seq":4,"run":"r","at":"2026-01-02T03:04:05Z","type":"sending",
		"step":"listBreeds","attempt":1,"method":"GET","url":"https://dogapi.dog/api/v2/breeds","new":true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(event.Base().Seq, event.Type())
	if sending, ok := event.(*a2s.EventSending); ok {
		fmt.Println(sending.Method, sending.URL)
	}
	// Output:
	// 4 sending
	// GET https://dogapi.dog/api/v2/breeds
}

func ExampleCanonicalize() {
	form, err := a2s.Canonicalize([]byte(`{"minutes": 2.50, "calls": 1e1, "\u20ac": "\u00e9"}`))
	fmt.Println(string(form), err)
	_, err = a2s.Canonicalize([]byte(`{"a": 1, "a": 2}`))
	fmt.Println(err)
	// Output:
	// {"calls":10,"minutes":2.5,"€":"é"} <nil>
	// invalid JSON at byte 16: an object that has the member "a" twice
}

func ExampleComputeChecksum() {
	document, err := json.Marshal(map[string]any{
		"200": "é\n€", "limits": map[string]any{"calls": 16, "minutes": 2.5, "none": nil}, "name": "SayHello",
		"tags": []string{"b", "a", "b"}, "version": "1.0", "checksum": "does not count",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a2s.ComputeChecksum(document))
	// Output: sha256:d4e0d62de54918d539d2ce317c072509c6bdb4c8a64a77013ac66f219b65f752 <nil>
}
