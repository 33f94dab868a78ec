package a2s_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	a2s "github.com/a2s/core"
)

// taskDocument returns a document with one request to a service of the test.
func taskDocument(t *testing.T, name, method, path string) map[string]any {
	t.Helper()
	document := map[string]any{
		"a2s": "1.1.0", "name": name, "version": "1.0.0", "description": "Calls the test at " + path,
		"domains": []string{"slow.example"}, "checksum": "", "authors": []any{map[string]any{"name": "Jane Smith"}},
		"execution": map[string]any{"type": "sequence", "steps": []any{map[string]any{
			"id": "call", "format": "OpenAPI", "timeout": "20s",
			"task": map[string]any{
				"openapi": "3.0.3", "info": map[string]any{"title": "Test", "version": "1"},
				"servers": []any{map[string]any{"url": "https://slow.example"}},
				"paths": map[string]any{path: map[string]any{method: map[string]any{
					"responses": map[string]any{"200": map[string]any{"description": "Fine"}},
				}}},
			},
		}}},
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if document["checksum"], err = a2s.ComputeChecksum(text); err != nil {
		t.Fatal(err)
	}
	return document
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// TestShippedDocuments computes the checksum of each shipped document over the JSON that A2S serves.
func TestShippedDocuments(t *testing.T) {
	registry := openWorld(t).registry()
	ctx := context.Background()
	verified := 0
	for summary, err := range registry.ListCapabilities(ctx, &a2s.PageOptions{Limit: 10}) {
		if err != nil {
			t.Fatal(err)
		}
		document := must[*a2s.Document](t)(registry.VerifyChecksum(ctx, summary))
		if document.Checksum() != summary.Checksum || document.Ref().Version != summary.Version {
			t.Errorf("%s has %v", summary.Name, document.Ref())
		}
		verified++
	}
	if verified < 42 {
		t.Errorf("%d documents were verified", verified)
	}
	t.Logf("%d documents were verified", verified)
}

// TestFromSearchToRun binds one checksum from the search to the run.
func TestFromSearchToRun(t *testing.T) {
	registry := openWorld(t).registry()
	ctx := context.Background()
	found := must[*a2s.SearchResult](t)(registry.SearchCapabilities(ctx, "which kinds of dogs are there", &a2s.SearchOptions{
		Limit: 1, Strategy: a2s.Strategies{a2s.Weights{VectorSimilarity: 1}, a2s.HighestScore},
	}))
	if len(found.Hits) != 1 || found.Hits[0].Name != "ListDogBreeds" || found.Hits[0].Match != a2s.MatchStrengthStrong {
		t.Fatalf("%+v", found)
	}
	hit := found.Hits[0]
	document := must[*a2s.Document](t)(registry.VerifyChecksum(ctx, hit))
	plan := must[*a2s.Plan](t)(registry.Plan(ctx, document, &a2s.PlanOptions{Preview: true}))
	task, ok := plan.Steps[0].(*a2s.PlannedStepTask)
	if !ok || task.Method != "GET" || plan.Capability.Checksum != hit.Checksum {
		t.Errorf("%+v", plan)
	}
	if _, ok := task.Preview.(*a2s.StepPreviewDecided); !ok {
		t.Errorf("the preview is %T", task.Preview)
	}
	run := must[*a2s.Run](t)(plan.Run(ctx, &a2s.RunOptions{Intent: "which kinds of dogs are there"}))
	var output struct{ Breeds []struct{ ID string } }
	if err := run.DecodeOutput(&output); err != nil || len(output.Breeds) != 1 || run.Checksum != hit.Checksum {
		t.Errorf("%+v, %v", run, err)
	}
	var types []string
	for event, err := range run.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, event.Type())
		if finished, ok := event.(*a2s.EventRunFinished); ok && finished.Status != a2s.RunStatusSucceeded {
			t.Errorf("%+v", finished)
		}
	}
	if !slices.Contains(types, "sending") || types[len(types)-1] != "run_finished" {
		t.Errorf("the events are %v", types)
	}
	if _, err := plan.Run(ctx, nil); !errors.Is(err, a2s.Code("A2S377")) {
		t.Errorf("the plan ran twice: %v", err)
	}
	if replay := must[*a2s.ReplayResponse](t)(registry.ReplayRun(ctx, run.ID, nil)); !replay.Unchanged {
		t.Errorf("%+v", replay)
	}
	listed := false
	for one, err := range registry.ListRuns(ctx, &a2s.RunFilter{Name: "ListDogBreeds", Limit: 1}) {
		listed = listed || err == nil && one.ID == run.ID
	}
	if !listed {
		t.Error("the run is not listed")
	}
	if err := registry.DeleteRun(ctx, run.ID); err != nil {
		t.Error(err)
	}
	var unknown *a2s.NotFound
	if err := run.Refresh(ctx); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
}

func TestErrorsOfRuns(t *testing.T) {
	registry := openWorld(t).registry()
	ctx := context.Background()
	var missing *a2s.MissingInput
	if _, err := registry.Run(ctx, a2s.Name("GetCountry"), nil); !errors.As(err, &missing) || len(missing.Missing) != 1 ||
		missing.Missing[0].Name != "country_code" || missing.Missing[0].Schema == nil {
		t.Errorf("%v: %+v", err, missing)
	}
	var denied *a2s.Denied
	_, err := registry.Run(ctx, a2s.Name("CheckGrammar"), &a2s.RunOptions{Inputs: a2s.Values{"text": "me like it"}})
	if !errors.As(err, &denied) || denied.Run == nil || denied.Cause != a2s.FaultAttributionGuardian {
		t.Errorf("%v", err)
	}
	if _, err := registry.Publish(ctx, a2s.JSON(taskDocument(t, "CallBroken", "get", "/broken"))); err != nil {
		t.Fatal(err)
	}
	var failed *a2s.RunFailed
	if _, err := registry.Run(ctx, a2s.Name("CallBroken"), nil); !errors.As(err, &failed) || failed.Status != 501 {
		t.Errorf("%v", err)
	}
	plan := must[*a2s.Plan](t)(registry.Plan(ctx, a2s.Name("GetCountry"), nil))
	if _, err := plan.Run(ctx, nil); !errors.As(err, &missing) {
		t.Errorf("%v", err)
	}
}

func TestDriftAndState(t *testing.T) {
	registry := openWorld(t).registry()
	ctx := context.Background()
	store := a2s.NewStateStore(registry, "go-drift")
	executor := a2s.NewCapabilityExecutor(registry, store)
	if err := store.Set(ctx, "country_code", "FR"); err != nil {
		t.Fatal(err)
	}
	run := must[*a2s.Run](t)(executor.ExecuteCapabilityTasks(ctx, a2s.Name("GetCountry"), nil))
	if !strings.Contains(string(run.Output), "Paris") {
		t.Errorf("%s", run.Output)
	}
	plan := must[*a2s.Plan](t)(registry.Plan(ctx, a2s.Name("GetCountry"), &a2s.PlanOptions{Session: "go-drift"}))
	if err := store.Set(ctx, "country_code", "DE"); err != nil {
		t.Fatal(err)
	}
	var drifted *a2s.Drifted
	if _, err := plan.Run(ctx, nil); !errors.As(err, &drifted) || len(drifted.Differences) == 0 {
		t.Errorf("%v: %+v", err, drifted)
	}
	if value, found, err := store.Get(ctx, "country_code"); string(value) != `"DE"` || !found || err != nil {
		t.Errorf("%s, %v, %v", value, found, err)
	}
	if err := store.Delete(ctx, "country_code"); err != nil {
		t.Error(err)
	}
	if entries, err := store.List(ctx); len(entries) != 0 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestApproval(t *testing.T) {
	registry := openWorld(t).registry()
	ctx := context.Background()
	for _, approve := range []bool{true, false} {
		_, err := registry.Run(ctx, a2s.Name("GetJoke"), nil)
		var needs *a2s.NeedsApproval
		if !errors.As(err, &needs) || len(needs.Approvals) != 1 || len(needs.Run.Approvals()) != 1 {
			t.Fatalf("%v: %+v", err, needs)
		}
		id := needs.Approvals[0].ID
		if status := must[*a2s.ApprovalStatus](t)(registry.GetApproval(ctx, id)); status.Status != "pending" {
			t.Errorf("%+v", status)
		}
		if waiting := must[[]a2s.Approval](t)(registry.ListApprovals(ctx, "pending")); len(waiting) == 0 {
			t.Error("no approval is listed")
		}
		decide := registry.Reject
		if approve {
			decide = registry.Approve
		}
		if _, err := decide(ctx, id, a2s.ApprovalDecisionRequest{DecidedBy: "ann", Reason: "A test."}); err != nil {
			t.Fatal(err)
		}
		run, err := needs.Wait(ctx)
		var denied *a2s.Denied
		if approve && (err != nil || !strings.Contains(string(run.Output), "Because.")) || !approve && !errors.As(err, &denied) {
			t.Errorf("%v: %v", approve, err)
		}
	}
}

func TestCancelAndFollow(t *testing.T) {
	registry := openWorld(t).registry()
	ctx := context.Background()
	if _, err := registry.Publish(ctx, a2s.JSON(taskDocument(t, "CallSlowly", "get", "/slow"))); err != nil {
		t.Fatal(err)
	}
	run := must[*a2s.Run](t)(registry.Start(ctx, a2s.Name("CallSlowly"), nil))
	for event, err := range run.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if _, sent := event.(*a2s.EventSending); sent {
			if err := run.Cancel(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	var failed *a2s.RunFailed
	if _, err := run.Wait(ctx); !errors.As(err, &failed) || failed.Run.Status != a2s.RunStatusCancelled {
		t.Errorf("%v", err)
	}
	if _, err := registry.CancelRun(ctx, run.ID); !errors.Is(err, a2s.Code("A2S305")) {
		t.Errorf("%v", err)
	}
	event := a2s.TriggerEvent{Type: "test", ID: "go-1"}
	options := &a2s.RunOptions{Inputs: a2s.Values{"country_code": "DE"}}
	first := must[*a2s.Run](t)(registry.Trigger(ctx, event, a2s.Name("GetCountry"), options))
	second := must[*a2s.Run](t)(registry.Trigger(ctx, event, a2s.Name("GetCountry"), options))
	if first.ID != second.ID {
		t.Errorf("%s and %s", first.ID, second.ID)
	}
}

func TestPublishing(t *testing.T) {
	registry := openWorld(t).registry()
	ctx := context.Background()
	document := taskDocument(t, "GreetFromGo", "get", "/greet")
	if report := must[*a2s.FindabilityReport](t)(registry.Validate(ctx, a2s.JSON(document))); len(report.Texts) == 0 {
		t.Errorf("%+v", report)
	}
	published := must[*a2s.PublishResponse](t)(registry.Publish(ctx, a2s.JSON(document)))
	if !published.Created || published.Checksum != document["checksum"] {
		t.Errorf("%+v", published)
	}
	var invalid *a2s.InvalidDocument
	if _, err := registry.Publish(ctx, a2s.YAML("a2s: 1.1.0\nname: lower\n")); !errors.As(err, &invalid) || len(invalid.Diagnostics) < 2 {
		t.Errorf("%v", err)
	}
	read := must[*a2s.Document](t)(registry.GetCapability(ctx, "GreetFromGo", ""))
	if again := must[*a2s.PublishResponse](t)(registry.Publish(ctx, read)); again.Created {
		t.Errorf("%+v", again)
	}
	if _, err := registry.Deprecate(ctx, "GreetFromGo", "1.0.0", a2s.DeprecateRequest{Message: "Old."}); err != nil {
		t.Error(err)
	}
	if changed := must[*a2s.LifecycleResponse](t)(registry.Yank(ctx, "GreetFromGo", "1.0.0")); !changed.Yanked {
		t.Errorf("%+v", changed)
	}
	if changed := must[*a2s.LifecycleResponse](t)(registry.Unyank(ctx, "GreetFromGo", "1.0.0")); changed.Yanked {
		t.Errorf("%+v", changed)
	}
	versions := must[*a2s.CapabilityVersions](t)(registry.ListVersions(ctx, "GreetFromGo"))
	if len(versions.Versions) != 1 || versions.Versions[0].Deprecated == nil || versions.Versions[0].Deprecated.Message != "Old." {
		t.Errorf("%+v", versions)
	}
	if _, err := registry.CreateToken(ctx, "go-ann", []a2s.Scope{a2s.ScopePublish}, 0); err != nil {
		t.Fatal(err)
	}
	if owners := must[*a2s.OwnerList](t)(registry.ChangeOwners(ctx, "GreetFromGo", a2s.OwnerChange{Add: "go-ann"})); len(owners.Owners) != 2 {
		t.Errorf("%+v", owners)
	}
	if verified := must[*a2s.VerifyResponse](t)(registry.VerifyStored(ctx, "GreetFromGo", "1.0.0")); !verified.Valid {
		t.Errorf("%+v", verified)
	}
	var last int64
	for change, err := range registry.FollowChanges(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if last = change.Seq; change.Name == "GreetFromGo" && change.Action == a2s.ActionUnyank {
			break
		}
	}
	for change, err := range registry.ListChanges(ctx, 0, &a2s.PageOptions{Limit: 20}) {
		if err != nil || change.Seq > last {
			t.Fatalf("%+v, %v", change, err)
		}
	}
	if graph := must[*a2s.CapabilityGraph](t)(registry.GetGraph(ctx, "GreetFromGo", &a2s.GraphOptions{Impact: true})); graph.Impact == nil {
		t.Errorf("%+v", graph)
	}
	if stats := must[*a2s.CapabilityStats](t)(registry.GetStats(ctx, "GreetFromGo", "1.0.0")); stats.Runs != 0 {
		t.Errorf("%+v", stats)
	}
	if forgotten := must[*a2s.ForgetResponse](t)(registry.ForgetIntents(ctx, "GreetFromGo")); forgotten.Name != "GreetFromGo" {
		t.Errorf("%+v", forgotten)
	}
}

func TestAdministration(t *testing.T) {
	w := openWorld(t)
	registry := w.registry()
	ctx := context.Background()
	credential := &a2s.CredentialAPIKey{Value: "key-12345", Place: "header:X-Key"}
	stored := must[*a2s.StoredCredential](t)(registry.SetSecret(ctx, "api.weather.example", "key", credential))
	if stored.Kind != a2s.CredentialKindAPIKey {
		t.Errorf("%+v", stored)
	}
	users := a2s.CredentialUsers{Subjects: []string{"batch"}}
	if stored := must[*a2s.StoredCredential](t)(registry.SetSecretUsers(ctx, "api.weather.example", "key", users)); len(stored.Users.Subjects) != 1 {
		t.Errorf("%+v", stored)
	}
	if secrets := must[[]a2s.StoredCredential](t)(registry.ListSecrets(ctx)); len(secrets) != 1 {
		t.Errorf("%+v", secrets)
	}
	if err := registry.DeleteSecret(ctx, "api.weather.example", "key"); err != nil {
		t.Error(err)
	}
	token := must[*a2s.NewToken](t)(registry.CreateToken(ctx, "go-ci", []a2s.Scope{a2s.ScopeExecute}, time.Hour))
	if known := must[*a2s.IntrospectionResponse](t)(registry.IntrospectToken(ctx, token.Token)); !known.Active {
		t.Errorf("%+v", known)
	}
	limited := w.registry(a2s.WithToken(token.Token))
	var unauthorized *a2s.Unauthorized
	if _, err := limited.ListTokens(ctx); !errors.As(err, &unauthorized) {
		t.Errorf("%v", err)
	}
	if tokens := must[[]a2s.TokenEntry](t)(registry.ListTokens(ctx)); len(tokens) == 0 {
		t.Error("no token is listed")
	}
	if err := registry.RevokeToken(ctx, "go-ci"); err != nil {
		t.Error(err)
	}
	ref := must[*a2s.Document](t)(registry.GetCapability(ctx, "GetJoke", "1.0.0")).Ref()
	if trusted := must[*a2s.TrustedVersion](t)(registry.AcceptTrust(ctx, ref.Name, ref.Version, ref.Checksum)); trusted.Name != ref.Name {
		t.Errorf("%+v", trusted)
	}
	if versions, err := collect(registry.ListTrust(ctx, nil)); err != nil || len(versions) == 0 {
		t.Errorf("%v, %v", versions, err)
	}
	if err := registry.ForgetTrust(ctx, ref.Name, ref.Version); err != nil {
		t.Error(err)
	}
	if entries, err := collect(registry.ReadAudit(ctx, &a2s.AuditFilter{Limit: 20})); err != nil || len(entries) < 40 {
		t.Errorf("%d, %v", len(entries), err)
	}
	if trimmed := must[*a2s.TrimAuditResponse](t)(registry.TrimAudit(ctx, time.Unix(0, 0))); trimmed.Removed != 0 {
		t.Errorf("%+v", trimmed)
	}
	if _, err := registry.ListHosts(ctx); err != nil {
		t.Error(err)
	}
	if index := must[*a2s.IndexStatus](t)(registry.GetIndex(ctx)); index.Points < 42 {
		t.Errorf("%+v", index)
	}
	if err := registry.CheckHealth(ctx); err != nil {
		t.Error(err)
	}
	services := 0
	for service, err := range registry.ListServices(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		services++
		for _, err := range registry.ListServiceCapabilities(ctx, service.Host, nil) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if found := must[*a2s.ServiceSearchResponse](t)(registry.SearchServices(ctx, "dogs", nil)); len(found.Services) == 0 || services < 20 {
		t.Errorf("%+v of %d", found, services)
	}
}

func TestAgent(t *testing.T) {
	registry := openWorld(t).registry()
	ctx := context.Background()
	agent := a2s.NewAgent()
	agent.UseRegistries(registry)
	var steps int
	response := must[*a2s.AgentResponse](t)(agent.HandleRequest(ctx, "list dog breeds", &a2s.AgentOptions{
		OnEvent: func(event a2s.AgentEvent) {
			if step, ok := event.(*a2s.AgentEventStep); ok && step.Event.Base().Seq > 0 {
				steps++
			}
		},
	}))
	if response.Status != a2s.AgentStatusCompleted || len(response.Runs) != 1 || steps == 0 {
		t.Errorf("%+v", response)
	}
	response = must[*a2s.AgentResponse](t)(agent.HandleRequest(ctx, "facts about a country", &a2s.AgentOptions{
		OnQuestion: func(_ context.Context, question *a2s.AgentQuestion) (*a2s.Reply, error) {
			if len(question.Fields) == 0 {
				return &a2s.Reply{Text: "GetCountry"}, nil
			}
			return &a2s.Reply{Inputs: a2s.Values{question.Fields[0].Name: "FR"}}, nil
		},
		OnConsent: func(context.Context, *a2s.AgentQuestion) (bool, error) { return true, nil },
	}))
	if response.Status != a2s.AgentStatusCompleted {
		t.Errorf("%s: %s", response.Status, response.Message)
	}
}
