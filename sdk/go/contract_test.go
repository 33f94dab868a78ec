package a2s_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	a2s "github.com/a2s/core"
)

// recording is a call with its exchanges, as sdk/README.md describes it.
type recording struct {
	Name      string
	Call      string
	Arguments json.RawMessage
	Exchanges []exchange
	Result    json.RawMessage
	Error     map[string]json.RawMessage
	Then      []recording
	// Settings are those of the registry, and Environment the variables, in which {server} is its address.
	Settings    settings
	Environment map[string]string
}

type settings struct {
	URL                 string
	Token               json.RawMessage
	AllowInsecureTokens *bool   `json:"allow_insecure_tokens"`
	IdleTimeout         float64 `json:"idle_timeout"`
}

type exchange struct {
	Request struct {
		Method  string
		Path    string
		Headers map[string]*string
		Body    json.RawMessage
		Text    *string
	}
	Response recordedResponse
}

type recordedResponse struct {
	Status  int
	Headers map[string]string
	Body    json.RawMessage
	Text    *string
	Cut     bool
	// Stall keeps the connection open after the last byte. Hold does so, too, and the caller leaves.
	Stall, Hold bool
	// Pad is the number of letters for `(pad)`.
	Pad int
}

// TestContract replays the exchanges that were recorded with the real server.
func TestContract(t *testing.T) {
	files, err := filepath.Glob("../contract/*.json")
	if err != nil {
		t.Fatal(err)
	}
	total, good := 0, 0
	for _, file := range files {
		if filepath.Base(file) == "errors.json" {
			continue
		}
		for _, r := range readRecordings(t, file) {
			total++
			if t.Run(r.Name, func(t *testing.T) { replay(t, r) }) {
				good++
			}
		}
	}
	t.Logf("contract: %d of %d", good, total)
	if total == 0 {
		t.Error("there is no recording")
	}
}

// TestContractExamples replays the cases of this SDK alone, which no recording has.
func TestContractExamples(t *testing.T) {
	for _, r := range readRecordings(t, "testdata/contract/example.json") {
		t.Run(r.Name, func(t *testing.T) { replay(t, r) })
	}
}

func readRecordings(t *testing.T, file string) []recording {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var recordings []recording
	if err := json.Unmarshal(text, &recordings); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return recordings
}

func replay(t *testing.T, r recording) {
	t.Helper()
	player := &player{t: t}
	server := httptest.NewUnstartedServer(player)
	// A kept connection would hide a lost one: net/http repeats some requests by itself.
	server.Config.SetKeepAlivesEnabled(false)
	server.Start()
	defer server.Close()
	for name, value := range r.Environment {
		t.Setenv(name, strings.ReplaceAll(value, "{server}", server.URL))
	}
	retry := withoutPauses()
	retry.IdleTimeout = time.Duration(r.Settings.IdleTimeout * float64(time.Second))
	options := []a2s.Option{a2s.WithRetry(retry)}
	if string(r.Settings.Token) != "null" {
		options = append(options, a2s.WithToken("owner-token"))
	}
	if allowed := r.Settings.AllowInsecureTokens; allowed != nil {
		options = append(options, a2s.WithInsecureTokens(*allowed))
	}
	registry := a2s.NewRegistry(cmp.Or(r.Settings.URL, server.URL), options...)
	player.play(func() any { return registry }, r)
}

// withoutPauses are the default retries, without the time between them.
func withoutPauses() a2s.Retry {
	return a2s.Retry{Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

// player is a server that sends the recorded responses, if the requests are the recorded ones.
type player struct {
	t     *testing.T
	mutex sync.Mutex
	left  []exchange
	leave context.CancelFunc
}

// play makes a call on a receiver, checks it, and makes the calls that follow.
func (p *player) play(receiver func() any, r recording) {
	p.t.Helper()
	p.mutex.Lock()
	p.left = r.Exchanges
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	p.leave = leave
	p.mutex.Unlock()
	result, err := call(ctx, receiver(), r.Call, r.Arguments)
	p.mutex.Lock()
	for _, missed := range p.left {
		p.t.Errorf("%s: the request %s %s was not sent", r.Call, missed.Request.Method, missed.Request.Path)
	}
	p.mutex.Unlock()
	if r.Error != nil {
		checkError(p.t, err, r.Error)
		result = err
	} else if err != nil {
		p.t.Errorf("%s: %v", r.Call, err)
	} else {
		checkJSON(p.t, r.Call, result, r.Result)
	}
	for _, then := range r.Then {
		p.play(func() any { return result }, then)
	}
}

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response := p.expect(w, r)
	if response == nil || !response.Stall && !response.Hold {
		return
	}
	_ = http.NewResponseController(w).Flush()
	if response.Hold {
		p.leave()
	}
	<-r.Context().Done()
}

// expect sends the recorded response, and returns what is to follow.
func (p *player) expect(w http.ResponseWriter, r *http.Request) *recordedResponse {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.left) == 0 {
		p.t.Errorf("the request %s %s was not expected", r.Method, r.URL)
		w.WriteHeader(http.StatusTeapot)
		return nil
	}
	expected := p.left[0]
	p.left = p.left[1:]
	p.checkRequest(r, expected)
	respond(p.t, w, expected)
	return &expected.Response
}

func (p *player) checkRequest(r *http.Request, expected exchange) {
	want := expected.Request
	if got := r.Method + " " + r.URL.RequestURI(); got != want.Method+" "+want.Path {
		p.t.Errorf("the request is %s, not %s %s", got, want.Method, want.Path)
	}
	for name, value := range want.Headers {
		got := r.Header.Get(name)
		if value == nil && got != "" || value != nil && got != *value && (*value != "*" || got == "") {
			p.t.Errorf("the header %s is %q", name, got)
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	switch {
	case want.Body != nil:
		checkJSON(p.t, "the body of the request", json.RawMessage(body), want.Body)
	case want.Text != nil:
		if string(body) != *want.Text {
			p.t.Errorf("the body of the request is %q", body)
		}
	case len(body) > 0:
		p.t.Errorf("the request has the body %q", body)
	}
}

// respond sends a recorded response, or cuts the connection.
func respond(t *testing.T, w http.ResponseWriter, e exchange) {
	body := string(e.Response.Body)
	if body == "null" {
		body = ""
	}
	if e.Response.Text != nil {
		body = *e.Response.Text
	}
	body = strings.ReplaceAll(body, "(pad)", strings.Repeat("x", e.Response.Pad))
	if !e.Response.Cut {
		for name, value := range e.Response.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(e.Response.Status)
		_, _ = io.WriteString(w, body)
		return
	}
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer connection.Close()
	if e.Response.Status != 0 {
		sendCut(connection, e, body)
	}
}

// sendCut sends a response whose end is missing.
func sendCut(connection net.Conn, e exchange, body string) {
	var out strings.Builder
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\n", e.Response.Status, http.StatusText(e.Response.Status))
	for name, value := range e.Response.Headers {
		fmt.Fprintf(&out, "%s: %s\r\n", name, value)
	}
	out.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	if body != "" { // an empty chunk would be the end
		fmt.Fprintf(&out, "%x\r\n%s\r\n", len(body), body)
	}
	_, _ = io.WriteString(connection, out.String())
}

func checkJSON(t *testing.T, what string, got any, want json.RawMessage) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if want == nil {
		want = json.RawMessage("null")
	}
	if a, b := parseAny(t, text), parseAny(t, want); !reflect.DeepEqual(a, b) {
		t.Errorf("%s differs:\n got %s\nwant %s", what, text, want)
	}
}

func parseAny(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// checkError compares the listed members of an error.
func checkError(t *testing.T, err error, want map[string]json.RawMessage) {
	t.Helper()
	if err == nil {
		t.Error("there is no error")
		return
	}
	var base *a2s.A2SError
	if !errors.As(err, &base) {
		t.Errorf("%T: %v", err, err)
		return
	}
	members := map[string]any{
		"class":   reflect.TypeOf(err).Elem().Name(),
		"status":  base.Status,
		"code":    nil,
		"message": base.Message,
		"cause":   base.Cause,
		"next":    base.Next,
		"hint":    base.Hint,
	}
	if base.Code != "" {
		members["code"] = base.Code
	}
	if base.Run != nil {
		members["run"] = base.Run.ID
	}
	switch e := err.(type) {
	case *a2s.NeedsApproval:
		members["approvals"] = e.Approvals
	case *a2s.MissingInput:
		members["missing"] = e.Missing
	case *a2s.Drifted:
		members["differences"] = e.Differences
	case *a2s.ChecksumMismatch:
		members["expected"], members["computed"] = e.Expected, e.Computed
	case *a2s.InvalidDocument:
		members["diagnostics"] = e.Diagnostics
	case *a2s.Busy:
		members["retry_after"] = e.RetryAfter.Seconds()
	}
	for name, value := range want {
		text, marshalError := json.Marshal(members[name])
		if marshalError != nil {
			t.Error(marshalError)
		}
		if !contains(parseAny(t, text), parseAny(t, value)) {
			t.Errorf("`%s` of the error %v is %s, not %s", name, err, text, value)
		}
	}
}

// contains reports whether a value has everything of another one: only the listed members are compared.
func contains(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		for name, value := range want {
			ok = ok && contains(object[name], value)
		}
		return ok
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			ok = ok && contains(list[i], want[i])
		}
		return ok
	default:
		return reflect.DeepEqual(got, want)
	}
}

// arguments are the arguments of all calls, by the names of sdk/README.md.
type arguments struct {
	OnAbort string `json:"on_abort"`

	Capability     json.RawMessage
	Plan           json.RawMessage
	Document       json.RawMessage
	Intent         json.RawMessage
	Limit          int
	Cursor         string
	Strategy       json.RawMessage
	Filters        *a2s.SearchFilters
	Name           string
	Version        string
	Host           string
	Since          int64
	Depth          int
	Impact         bool
	Message        string
	Successor      string
	Undo           bool
	Add            string
	Remove         string
	Transfer       string
	Inputs         a2s.Values
	Session        string
	Preview        bool
	IdempotencyKey string `json:"idempotency_key"`
	Wait           *bool
	ID             string
	Status         string
	Tenant         string
	Decision       a2s.StepResolution
	Step           string
	Outputs        a2s.Values
	Against        *a2s.ReplayTarget
	After          int64
	Event          a2s.TriggerEvent
	DecidedBy      string `json:"decided_by"`
	Reason         string
	Scheme         string
	Credential     json.RawMessage
	Users          a2s.CredentialUsers
	Value          json.RawMessage
	Report         a2s.OutcomeReport
	Scopes         []a2s.Scope
	ExpiresInS     int64 `json:"expires_in_s"`
	Token          string
	Checksum       string
	Before         json.RawMessage
	Query          string
	OnQuestion     []json.RawMessage `json:"on_question"`
	OnConsent      []bool            `json:"on_consent"`
	Context        a2s.Values
	Description    string
	Operations     []string
	Unit           a2s.UsageUnit
	Rule           string
	Policy         string
	Last           *int
}

// call makes a call of sdk/README.md on a registry, or on what an earlier call returned.
func call(ctx context.Context, receiver any, name string, text json.RawMessage) (any, error) {
	var a arguments
	if text != nil {
		if err := json.Unmarshal(text, &a); err != nil {
			return nil, err
		}
	}
	switch on := receiver.(type) {
	case *a2s.Registry:
		make, found := calls[name]
		if !found {
			return nil, fmt.Errorf("unknown call %s", name)
		}
		return make(ctx, on, a)
	case *a2s.Run:
		switch name {
		case "wait":
			return on.Wait(ctx)
		case "events":
			return collect(on.Events(ctx))
		case "cancel":
			return on, on.Cancel(ctx)
		case "refresh":
			return on, on.Refresh(ctx)
		case "resume":
			return on.Resume(ctx, a.Decision, &a2s.ResumeOptions{Step: a.Step, Outputs: a.Outputs})
		}
	case *a2s.Plan:
		if name == "run" {
			return on.Run(ctx, a.runOptions())
		}
	case *a2s.NeedsApproval:
		if name == "wait" {
			return on.Wait(ctx)
		}
	case *a2s.OutcomeUnknown:
		if name == "resume" {
			return on.Resume(ctx, a.Decision, &a2s.ResumeOptions{Step: a.Step, Outputs: a.Outputs})
		}
	}
	return nil, fmt.Errorf("unknown call %s on %T", name, receiver)
}

func collect[T any](items iter.Seq2[T, error]) ([]T, error) {
	list := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func (a arguments) runOptions() *a2s.RunOptions {
	options := &a2s.RunOptions{Inputs: a.Inputs, Session: a.Session, IdempotencyKey: a.IdempotencyKey}
	if a.OnAbort == "detach" {
		options.OnAbort = a2s.AbortDetach
	}
	if a.Intent != nil {
		_ = json.Unmarshal(a.Intent, &options.Intent)
	}
	return options
}

func (a arguments) search() (*a2s.SearchOptions, error) {
	strategy, err := parseStrategy(a.Strategy)
	return &a2s.SearchOptions{Limit: a.Limit, Cursor: a.Cursor, Strategy: strategy, Filters: a.Filters}, err
}

// parseStrategy reads a strategy through a type of the API that contains one.
func parseStrategy(text json.RawMessage) (a2s.Strategy, error) {
	if text == nil {
		return nil, nil
	}
	var request a2s.SearchRequest
	err := json.Unmarshal([]byte(`{"strategy":`+string(text)+`}`), &request)
	return request.Strategy, err
}

// capability reads a name, a hit, a reference, a document or a plan.
func capability(text json.RawMessage) (a2s.Capability, error) {
	var name a2s.Name
	if json.Unmarshal(text, &name) == nil {
		return name, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	has := func(name string) bool { _, found := members[name]; return found }
	switch {
	case has("steps"):
		plan := &a2s.Plan{}
		return plan, json.Unmarshal(text, plan)
	case has("execution"):
		return a2s.ParseDocument(text)
	case has("score"):
		var hit a2s.SearchHit
		return hit, json.Unmarshal(text, &hit)
	default:
		var ref a2s.CapabilityRef
		err := json.Unmarshal(text, &ref)
		return a2s.CapabilityRef{Name: ref.Name, Version: ref.Version, Checksum: ref.Checksum}, err
	}
}

func (a arguments) source() a2s.Source {
	var text string
	if json.Unmarshal(a.Document, &text) == nil {
		return a2s.YAML(text)
	}
	return a2s.JSON(a.Document)
}

func (a arguments) state() *a2s.StateOptions { return &a2s.StateOptions{Session: a.Session} }

func (a arguments) page() *a2s.PageOptions { return &a2s.PageOptions{Limit: a.Limit} }

func (a arguments) approval() a2s.ApprovalDecisionRequest {
	return a2s.ApprovalDecisionRequest{DecidedBy: a.DecidedBy, Reason: a.Reason}
}

// calls are the calls on a registry.
var calls = map[string]func(ctx context.Context, r *a2s.Registry, a arguments) (any, error){
	"search_capabilities": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		options, err := a.search()
		if err != nil {
			return nil, err
		}
		var intents []string
		if json.Unmarshal(a.Intent, &intents) == nil {
			return r.SearchCapabilitiesForEach(ctx, intents, options)
		}
		var intent string
		_ = json.Unmarshal(a.Intent, &intent)
		return r.SearchCapabilities(ctx, intent, options)
	},
	"search_services": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		options, err := a.search()
		if err != nil {
			return nil, err
		}
		var intent string
		_ = json.Unmarshal(a.Intent, &intent)
		return r.SearchServices(ctx, intent, options)
	},
	"get_capability": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.GetCapability(ctx, a.Name, a.Version)
	},
	"verify_checksum": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		c, err := capability(a.Capability)
		if err != nil {
			return nil, err
		}
		return r.VerifyChecksum(ctx, c)
	},
	"verify_stored": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.VerifyStored(ctx, a.Name, a.Version)
	},
	"list_capabilities": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return collect(r.ListCapabilities(ctx, a.page()))
	},
	"list_services": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return collect(r.ListServices(ctx, a.page()))
	},
	"list_service_capabilities": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return collect(r.ListServiceCapabilities(ctx, a.Host, a.page()))
	},
	"list_changes": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return collect(r.ListChanges(ctx, a.Since, a.page()))
	},
	"follow_changes": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return collect(r.FollowChanges(ctx, a.Since))
	},
	"list_versions": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ListVersions(ctx, a.Name)
	},
	"get_graph": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.GetGraph(ctx, a.Name, &a2s.GraphOptions{Version: a.Version, Depth: a.Depth, Impact: a.Impact})
	},
	"get_stats": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.GetStats(ctx, a.Name, a.Version)
	},
	"list_owners": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ListOwners(ctx, a.Name)
	},
	"get_index": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) { return r.GetIndex(ctx) },
	"validate": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.Validate(ctx, a.source())
	},
	"publish": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.Publish(ctx, a.source())
	},
	"yank": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.Yank(ctx, a.Name, a.Version)
	},
	"unyank": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.Unyank(ctx, a.Name, a.Version)
	},
	"deprecate": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		advice := a2s.DeprecateRequest{Message: a.Message, Successor: a.Successor, Undo: a.Undo}
		return r.Deprecate(ctx, a.Name, a.Version, advice)
	},
	"change_owners": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ChangeOwners(ctx, a.Name, a2s.OwnerChange{Add: a.Add, Remove: a.Remove, Transfer: a.Transfer})
	},
	"forget_intents": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ForgetIntents(ctx, a.Name)
	},
	"plan": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		c, err := capability(a.Capability)
		if err != nil {
			return nil, err
		}
		return r.Plan(ctx, c, &a2s.PlanOptions{Inputs: a.Inputs, Session: a.Session, Preview: a.Preview})
	},
	"run": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		text := a.Capability
		if a.Plan != nil {
			text = a.Plan
		}
		c, err := capability(text)
		if err != nil {
			return nil, err
		}
		if a.Wait != nil && !*a.Wait {
			return r.Start(ctx, c, a.runOptions())
		}
		return r.Run(ctx, c, a.runOptions())
	},
	"trigger": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		c, err := capability(a.Capability)
		if err != nil {
			return nil, err
		}
		return r.Trigger(ctx, a.Event, c, a.runOptions())
	},
	"get_run": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) { return r.GetRun(ctx, a.ID) },
	"list_runs": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		filter := &a2s.RunFilter{Status: a2s.RunStatus(a.Status), Name: a.Name, Tenant: a.Tenant, Limit: a.Limit}
		return collect(r.ListRuns(ctx, filter))
	},
	"cancel_run": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) { return r.CancelRun(ctx, a.ID) },
	"resume_run": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ResumeRun(ctx, a.ID, a.Decision, &a2s.ResumeOptions{Step: a.Step, Outputs: a.Outputs})
	},
	"delete_run": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return nil, r.DeleteRun(ctx, a.ID)
	},
	"list_exchanges": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ListExchanges(ctx, a.ID)
	},
	"replay_run": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ReplayRun(ctx, a.ID, a.Against)
	},
	"events": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return collect(r.Events(ctx, a.ID, a.After))
	},
	"list_approvals": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ListApprovals(ctx, a.Status)
	},
	"get_approval": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.GetApproval(ctx, a.ID)
	},
	"approve": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.Approve(ctx, a.ID, a.approval())
	},
	"reject": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.Reject(ctx, a.ID, a.approval())
	},
	"list_secrets": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) { return r.ListSecrets(ctx) },
	"set_secret": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		credential, err := credential(a.Credential)
		if err != nil {
			return nil, err
		}
		return r.SetSecret(ctx, a.Host, a.Scheme, credential)
	},
	"set_secret_users": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.SetSecretUsers(ctx, a.Host, a.Scheme, a.Users)
	},
	"delete_secret": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return nil, r.DeleteSecret(ctx, a.Host, a.Scheme)
	},
	"list_state": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.ListState(ctx, a.state())
	},
	"set_state": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.SetState(ctx, a.Name, a.Value, a.state())
	},
	"delete_state": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return nil, r.DeleteState(ctx, a.Name, a.state())
	},
	"record_outcome": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return nil, r.RecordOutcome(ctx, a.Report)
	},
	"list_tokens": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) { return r.ListTokens(ctx) },
	"create_token": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.CreateToken(ctx, a.Name, a.Scopes, time.Duration(a.ExpiresInS)*time.Second)
	},
	"revoke_token": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return nil, r.RevokeToken(ctx, a.Name)
	},
	"introspect_token": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.IntrospectToken(ctx, a.Token)
	},
	"list_trust": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return collect(r.ListTrust(ctx, a.page()))
	},
	"accept_trust": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.AcceptTrust(ctx, a.Name, a.Version, a.Checksum)
	},
	"forget_trust": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return nil, r.ForgetTrust(ctx, a.Name, a.Version)
	},
	"list_hosts": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) { return r.ListHosts(ctx) },
	"read_audit": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		filter := &a2s.AuditFilter{Name: a.Name, Limit: a.Limit}
		if a.Before != nil {
			_ = json.Unmarshal(a.Before, &filter.Before)
		}
		return collect(r.ReadAudit(ctx, filter))
	},
	"trim_audit": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		var before time.Time
		if err := json.Unmarshal(a.Before, &before); err != nil {
			return nil, err
		}
		return r.TrimAudit(ctx, before)
	},
	"create_drafts": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.CreateDrafts(ctx, a2s.DraftRequest{Description: a.Description, Operations: a.Operations})
	},
	"count_usage": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.CountUsage(ctx, time.Time{}, a.Unit)
	},
	"list_mirrors": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) { return r.ListMirrors(ctx) },
	"count_searches": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) {
		return r.CountSearches(ctx)
	},
	"get_policy": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) { return r.GetPolicy(ctx) },
	"list_records": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return collect(r.ListRecords(ctx, &a2s.RecordFilter{Rule: a.Rule, Limit: a.Limit}))
	},
	"verify_log": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) { return r.VerifyLog(ctx) },
	"try_policy": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		return r.TryPolicy(ctx, a2s.PolicyTrialRequest{Policy: a.Policy, Last: a.Last})
	},
	"check_health": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) {
		err := r.CheckHealth(ctx)
		return err == nil, err
	},
	"check_readiness": func(ctx context.Context, r *a2s.Registry, _ arguments) (any, error) {
		err := r.CheckReadiness(ctx)
		return err == nil, err
	},
	"handle_request": func(ctx context.Context, r *a2s.Registry, a arguments) (any, error) {
		strategy, err := parseStrategy(a.Strategy)
		if err != nil {
			return nil, err
		}
		agent := a2s.NewAgent()
		agent.UseRegistries(r)
		options := &a2s.AgentOptions{
			Session: a.Session, Context: a.Context, Strategy: strategy, Filters: a.Filters,
			OnEvent: func(a2s.AgentEvent) {},
		}
		if a.OnQuestion != nil {
			options.OnQuestion = func(context.Context, *a2s.AgentQuestion) (*a2s.Reply, error) {
				next := a.OnQuestion[0]
				a.OnQuestion = a.OnQuestion[1:]
				var reply a2s.Reply
				switch next[0] {
				case '{':
					return &reply, json.Unmarshal(next, &reply.Inputs)
				case '"':
					return &reply, json.Unmarshal(next, &reply.Text)
				default:
					return nil, nil
				}
			}
		}
		if a.OnConsent != nil {
			options.OnConsent = func(context.Context, *a2s.AgentQuestion) (bool, error) {
				next := a.OnConsent[0]
				a.OnConsent = a.OnConsent[1:]
				return next, nil
			}
		}
		return agent.HandleRequest(ctx, a.Query, options)
	},
}

// credential reads a credential as the API writes it.
func credential(text json.RawMessage) (a2s.Credential, error) {
	var tag struct{ Kind a2s.CredentialKind }
	if err := json.Unmarshal(text, &tag); err != nil {
		return nil, err
	}
	var credential a2s.Credential
	switch tag.Kind {
	case a2s.CredentialKindAPIKey:
		credential = &a2s.CredentialAPIKey{}
	case a2s.CredentialKindBasic:
		credential = &a2s.CredentialBasic{}
	case a2s.CredentialKindBearer:
		credential = &a2s.CredentialBearer{}
	case a2s.CredentialKindOAuth2:
		credential = &a2s.CredentialOAuth2{}
	}
	return credential, json.Unmarshal(text, credential)
}
