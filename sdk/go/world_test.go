package a2s_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	a2s "github.com/a2s/core"
)

// policy is the policy of the guardian in the tests with the real server.
const policy = `version: 1
default: allow
rules:
  - {id: jokes, on: toolCallRequest, tool: GetJoke.*, decision: approve, message: Jokes need a person.}
  - {id: grammar, on: toolCallRequest, tool: CheckGrammar.*, decision: deny, message: Grammar is private.}
`

// world is a running A2S whose services are a mock on this machine.
type world struct {
	url   string
	token string
}

var startWorld = sync.OnceValues(newWorld)

// openWorld returns the A2S that the tests share. Without the program, the test is skipped.
func openWorld(t testing.TB) *world {
	t.Helper()
	if os.Getenv("A2S_TEST_BIN") == "" {
		t.Skip("SKIPPED: A2S_TEST_BIN does not name the program `a2s`")
	}
	w, err := startWorld()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// stopWorld ends what the tests started.
var stopWorld []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range stopWorld {
		stop()
	}
	os.Exit(code)
}

func newWorld() (*world, error) {
	folder, err := os.MkdirTemp("", "a2s-go-")
	if err != nil {
		return nil, err
	}
	stopWorld = append(stopWorld, func() { _ = os.RemoveAll(folder) })
	services := httptest.NewServer(http.HandlerFunc(answerAsService))
	policyFile := filepath.Join(folder, "policy.yaml")
	if err := os.WriteFile(policyFile, []byte(policy), 0o600); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	arguments := []string{"up", "--data-dir", data, "--listen", address, "--policy", policyFile, "--token", "owner-token"}
	for _, host := range []string{
		"dogapi.dog", "countries.trevorblades.com", "official-joke-api.appspot.com", "api.languagetoolplus.com", "slow.example",
	} {
		arguments = append(arguments, "--upstream", host+"="+services.URL)
	}
	var log bytes.Buffer
	command := exec.Command(os.Getenv("A2S_TEST_BIN"), arguments...)
	command.Env = []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH")}
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		return nil, err
	}
	stopWorld = append([]func(){func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		services.Close()
	}}, stopWorld...)
	w := &world{"http://" + address, "owner-token"}
	// The SDK itself waits until the services are ready.
	patient := a2s.NewRegistry(w.url, a2s.WithToken(w.token), a2s.WithRetry(a2s.Retry{
		Attempts: 600, Pause: 100 * time.Millisecond, MaxPause: time.Second,
	}))
	if err := patient.CheckReadiness(context.Background()); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, log.String())
	}
	return w, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func (w *world) registry(options ...a2s.Option) *a2s.Registry {
	retry := a2s.Retry{ApprovalPause: 50 * time.Millisecond}
	options = append([]a2s.Option{a2s.WithToken(w.token), a2s.WithRetry(retry)}, options...)
	return a2s.NewRegistry(w.url, options...)
}

// answerAsService answers like the services of the shipped capabilities.
func answerAsService(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/v2/breeds"):
		fmt.Fprint(w, `{"data":[{"id":"1","type":"breed","attributes":{"name":"Caucasian Shepherd","hypoallergenic":false}}]}`)
	case r.URL.Path == "/graphql" && bytes.Contains(body, []byte(`"DE"`)):
		fmt.Fprint(w, `{"data":{"country":{"name":"Germany","native":"Deutschland","capital":"Berlin","currency":"EUR",`+
			`"phone":"49","emoji":"🇩🇪","continent":{"name":"Europe"},"languages":[{"name":"German"}]}}}`)
	case r.URL.Path == "/graphql":
		fmt.Fprint(w, `{"data":{"country":{"name":"France","native":"France","capital":"Paris","currency":"EUR",`+
			`"phone":"33","emoji":"🇫🇷","continent":{"name":"Europe"},"languages":[{"name":"French"}]}}}`)
	case r.URL.Path == "/random_joke":
		fmt.Fprint(w, `{"id":1,"type":"general","setup":"Why?","punchline":"Because."}`)
	case r.URL.Path == "/slow":
		<-r.Context().Done()
	case r.URL.Path == "/broken":
		w.WriteHeader(http.StatusNotImplemented)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
