package a2s_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	a2s "github.com/a2s/core"
)

// serve starts a server, and returns an SDK that speaks to it. The pauses of retries are recorded.
func serve(t *testing.T, handler http.HandlerFunc, options ...a2s.Option) (*a2s.Registry, *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	var pauses []time.Duration
	retry := a2s.Retry{Sleep: func(ctx context.Context, pause time.Duration) error {
		pauses = append(pauses, pause)
		return ctx.Err()
	}}
	options = append([]a2s.Option{a2s.WithToken("secret"), a2s.WithRetry(retry)}, options...)
	return a2s.NewRegistry(server.URL, options...), &pauses
}

func TestRetryObeysTheServer(t *testing.T) {
	answers := []string{"7", "", "120"}
	registry, pauses := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", answers[0])
		answers = answers[1:]
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := registry.GetIndex(context.Background())
	var busy *a2s.Busy
	if !errors.As(err, &busy) || busy.RetryAfter != 2*time.Minute || busy.Status != http.StatusTooManyRequests {
		t.Errorf("%v", err)
	}
	if len(*pauses) != 2 || (*pauses)[0] != 7*time.Second {
		t.Errorf("the pauses are %v", *pauses)
	}
	// One second, give or take 25 %.
	if second := (*pauses)[1]; second < 750*time.Millisecond || second > 1250*time.Millisecond {
		t.Errorf("the second pause is %v", second)
	}
}

func TestRetryAfterALongPauseIsLeftToTheCaller(t *testing.T) {
	registry, pauses := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	_, err := registry.GetIndex(context.Background())
	var busy *a2s.Busy
	if !errors.As(err, &busy) || busy.RetryAfter != time.Hour || len(*pauses) != 0 {
		t.Errorf("%v after %v", err, *pauses)
	}
}

func TestTimeLimit(t *testing.T) {
	var requests atomic.Int32
	release := make(chan struct{})
	registry, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, a2s.WithTimeout(time.Millisecond))
	defer close(release)
	_, err := registry.GetIndex(context.Background())
	var away *a2s.NotReachable
	if !errors.As(err, &away) || !errors.Is(err, context.DeadlineExceeded) || requests.Load() > 1 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	registry, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after the body
		cancel()
		<-r.Context().Done()
	})
	if _, err := registry.Run(ctx, a2s.Name("GetJoke"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for _, err := range registry.Events(ctx, "x", 0) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

func TestTokenStaysWithItsOrigin(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	registry, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("the token is %q", got)
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, err := registry.GetIndex(context.Background())
	var base *a2s.A2SError
	if !errors.As(err, &base) || base.Status != http.StatusTemporaryRedirect {
		t.Errorf("%v", err)
	}
}

func TestLargeResponsesAreRefused(t *testing.T) {
	registry, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := strings.Repeat(" ", 1<<20)
		for range 65 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	if _, err := registry.GetIndex(context.Background()); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%v", err)
	}
}

func TestLargeEventsAreRefused(t *testing.T) {
	for name, part := range map[string]string{"one line": strings.Repeat("x", 1<<10), "many lines": strings.Repeat("x", 1<<10) + "\ndata: "} {
		registry, pauses := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 1\ndata: "+strings.Repeat(part, 65<<20/len(part))+"\n\n")
		})
		count := 0
		for _, err := range registry.Events(context.Background(), "x", 0) {
			if count++; err == nil || !strings.Contains(err.Error(), "larger than") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if count != 1 || len(*pauses) != 0 {
			t.Errorf("%s: %d items, %v", name, count, *pauses)
		}
	}
}

func TestAddressesAndTokens(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "token"), []byte("of-the-folder\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var address, token, uri string
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		address, token, uri = r.URL.Scheme+"://"+r.URL.Host, r.Header.Get("Authorization"), r.URL.RequestURI()
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
	})
	for _, test := range []struct{ url, envURL, envToken, wantAddress, wantToken string }{
		{"", "", "", "http://127.0.0.1:8740", "Bearer of-the-folder"},
		{"", "https://a2s.example:1", "", "https://a2s.example:1", ""},
		{"http://[::1]:5", "https://a2s.example", "", "http://[::1]:5", "Bearer of-the-folder"},
		{"http://localhost", "", "of-the-variable", "http://localhost", "Bearer of-the-variable"},
		{"https://a2s.example", "", "of-the-variable", "https://a2s.example", ""},
		{"https://a2s.example:443/x", "https://a2s.example", "of-the-variable", "https://a2s.example:443", "Bearer of-the-variable"},
		{"http://127.0.0.1:1", "https://a2s.example", "of-the-variable", "http://127.0.0.1:1", "Bearer of-the-folder"},
		{"http://127.0.0.1.example", "", "", "http://127.0.0.1.example", ""},
		{"http://user:password@a2s.example", "", "", "http://a2s.example", ""},
	} {
		t.Setenv("A2S_URL", test.envURL)
		t.Setenv("A2S_TOKEN", test.envToken)
		t.Setenv("A2S_DATA_DIR", folder)
		registry := a2s.NewRegistry(test.url, a2s.WithTransport(transport))
		if err := registry.DeleteRun(context.Background(), "a b/c?d"); err != nil {
			t.Errorf("%v: %v", test, err)
		}
		if address != test.wantAddress || token != test.wantToken || !strings.HasSuffix(uri, "/v1/executions/a%20b%2Fc%3Fd") {
			t.Errorf("%v: %s %q %s", test, address, token, uri)
		}
	}
	base := a2s.NewRegistry("https://a2s.example/behind/", a2s.WithTransport(transport))
	if err := base.DeleteRun(context.Background(), "x"); err != nil || uri != "/behind/v1/executions/x" {
		t.Errorf("%s, %v", uri, err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestArgumentsThatCannotBeSent(t *testing.T) {
	registry, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the request %s was sent", r.URL)
	})
	ctx := context.Background()
	var invalid *a2s.InvalidInput
	for _, err := range []error{
		registry.DeleteRun(ctx, ""),
		registry.DeleteRun(ctx, ".."),
		a2s.NewRegistry("127.0.0.1:8740").CheckHealth(ctx),
		a2s.NewRegistry("file:///etc/passwd").CheckHealth(ctx),
		errorOf(registry.Plan(ctx, a2s.SearchHit{Name: "GetJoke", Version: "1.0.0"}, nil)),
		errorOf(registry.Run(ctx, &a2s.SearchHit{Name: "GetJoke"}, nil)),
		errorOf(registry.VerifyChecksum(ctx, a2s.CapabilitySummary{Name: "GetJoke"})),
		errorOf(a2s.NewAgent().HandleRequest(ctx, "x", nil)),
	} {
		if !errors.As(err, &invalid) {
			t.Errorf("%v", err)
		}
	}
	if _, err := registry.SetState(ctx, "x", func() {}, nil); err == nil {
		t.Error("a function was sent")
	}
}

func errorOf[T any](_ T, err error) error { return err }

func TestEachStartHasItsOwnKey(t *testing.T) {
	keys := map[string]bool{}
	registry, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")] = true
		fmt.Fprint(w, `{"id":"r","status":"succeeded"}`)
	})
	for range 3 {
		if _, err := registry.Run(context.Background(), a2s.Name("GetJoke"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 3 || keys[""] {
		t.Errorf("the keys are %v", keys)
	}
}

// TestAnotherDocument checks that a registry cannot answer with the document of another capability.
func TestAnotherDocument(t *testing.T) {
	registry, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, honestDocument)
	})
	checksum, _ := a2s.ComputeChecksum([]byte(honestDocument))
	ref := a2s.CapabilityRef{Name: "GetJoke", Version: "1.0.0", Checksum: checksum}
	if _, err := registry.VerifyChecksum(context.Background(), ref); err == nil {
		t.Error("the document of another capability is accepted")
	}
}

func TestAgentAsksTheNextRegistry(t *testing.T) {
	answer := func(status string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"type\":\"new\",\"x\":1}\n\nevent: response\n"+
				"data: {\"type\":\"response\",\"session\":\"s-1\",\"turn\":\"t\",\"status\":%q,\"message\":\"m\"}\n\n", status)
		}
	}
	first, _ := serve(t, answer("nothing_fits"))
	second, _ := serve(t, answer("completed"))
	third, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the third registry was asked") })
	agent := a2s.NewAgent()
	agent.UseRegistries(first, second, third)
	var types []string
	response, err := agent.HandleRequest(context.Background(), "q", &a2s.AgentOptions{
		OnEvent: func(event a2s.AgentEvent) { types = append(types, event.Type()) },
	})
	if err != nil || response.Status != a2s.AgentStatusCompleted {
		t.Errorf("%v, %v", response, err)
	}
	if want := []string{"new", "response", "new", "response"}; !slices.Equal(types, want) {
		t.Errorf("the events are %v", types)
	}
}

func TestAgentStreamWithoutAResponse(t *testing.T) {
	requests := 0
	registry, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: heard\ndata: {\"type\":\"heard\"}\n\n")
	})
	agent := a2s.NewAgent()
	agent.UseRegistries(registry)
	_, err := agent.HandleRequest(context.Background(), "q", nil)
	var away *a2s.NotReachable
	if !errors.As(err, &away) || requests != 1 {
		t.Errorf("%v after %d requests", err, requests)
	}
}
