package a2s

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	defaultURL     = "http://127.0.0.1:8740"
	defaultTimeout = 30 * time.Second
)

// Registry is an A2S: registry, executor, guardian and agent at one address. It may be used by several
// goroutines at the same time.
type Registry struct {
	url     string
	token   string
	timeout time.Duration
	retry   Retry
	client  *http.Client
	failed  error

	insecureTokens *bool
}

// Option is a setting of a [Registry].
type Option func(*Registry)

// WithToken sets the token. Without it, the token is A2S_TOKEN, or that of the data folder of `a2s up`
// if the address is on this machine.
func WithToken(token string) Option {
	return func(r *Registry) { r.token = token }
}

// WithInsecureTokens sends the token over plain HTTP to other machines, too. Without it, the variable
// A2S_ALLOW_INSECURE_TOKENS decides.
func WithInsecureTokens(allowed bool) Option {
	return func(r *Registry) { r.insecureTokens = &allowed }
}

// WithTimeout sets the time limit of each request, which is 30 seconds without it. Streams have the limit
// of their context, and of [Retry].IdleTimeout. With 0 nothing else has one.
func WithTimeout(timeout time.Duration) Option {
	return func(r *Registry) { r.timeout = timeout }
}

// WithRetry sets the number of attempts of a request, and the pauses.
func WithRetry(retry Retry) Option {
	return func(r *Registry) { r.retry = retry }
}

// WithTransport sets the transport of the requests, for example one with other certificate authorities.
func WithTransport(transport http.RoundTripper) Option {
	return func(r *Registry) { r.client.Transport = transport }
}

// NewRegistry returns the A2S at an address. An empty address is that of the variable A2S_URL, or
// http://127.0.0.1:8740. It sends nothing: an address that is not valid is the error of the first call.
func NewRegistry(address string, options ...Option) *Registry {
	r := &Registry{
		timeout: defaultTimeout,
		client: &http.Client{
			// The token must not go to another origin.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, option := range options {
		option(r)
	}
	r.retry = r.retry.withDefaults()
	if address == "" {
		address = os.Getenv("A2S_URL")
	}
	if address == "" {
		address = defaultURL
	}
	parsed, err := parseAddress(address)
	if err != nil {
		r.failed = err
		return r
	}
	r.url = strings.TrimSuffix(parsed.String(), "/")
	r.token, r.failed = r.findToken(parsed)
	return r
}

func parseAddress(address string) (*url.URL, error) {
	parsed, err := url.Parse(address)
	if err == nil && (parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "") {
		err = fmt.Errorf("%q has no scheme `http` or `https`, or no host", address)
	}
	if err != nil {
		return nil, &InvalidInput{&A2SError{
			Message: "the address of A2S is not valid: " + err.Error(),
			Hint:    "Give an address such as " + defaultURL + ", or set A2S_URL.",
			cause:   err,
		}}
	}
	return &url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}, nil
}

// findToken returns the token of the option or of the environment, or that of the `a2s up` of this
// machine. A2S_TOKEN belongs to the origin of A2S_URL; without A2S_URL, to this machine. A token that would
// leave this machine over plain HTTP is an error.
func (r *Registry) findToken(address *url.URL) (string, error) {
	token, here := r.token, isLoopback(address.Hostname())
	if token == "" && ownsToken(address) {
		token = os.Getenv("A2S_TOKEN")
	}
	if token == "" && here {
		return readTokenFile(), nil
	}
	if token != "" && address.Scheme != "https" && !here && !r.allowsInsecureTokens() {
		return "", &InvalidInput{&A2SError{
			Message: fmt.Sprintf("the SDK does not send a token to `%s` over plain http", address.Hostname()),
			Hint: "Use an https address. If the network itself is protected, allow it with the option " +
				"WithInsecureTokens or with A2S_ALLOW_INSECURE_TOKENS=true.",
		}}
	}
	return token, nil
}

// ownsToken reports whether A2S_TOKEN is meant for the address.
func ownsToken(address *url.URL) bool {
	home := os.Getenv("A2S_URL")
	if home == "" {
		return isLoopback(address.Hostname())
	}
	parsed, err := parseAddress(home)
	return err == nil && origin(parsed) == origin(address)
}

func origin(address *url.URL) string {
	port := address.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[address.Scheme]
	}
	return address.Scheme + "://" + strings.ToLower(address.Hostname()) + ":" + port
}

func (r *Registry) allowsInsecureTokens() bool {
	if r.insecureTokens != nil {
		return *r.insecureTokens
	}
	allowed := os.Getenv("A2S_ALLOW_INSECURE_TOKENS")
	return allowed == "true" || allowed == "1"
}

func readTokenFile() string {
	folder := dataFolder()
	if folder == "" {
		return ""
	}
	token, err := os.ReadFile(filepath.Join(folder, "token"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(token))
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// dataFolder returns the folder in which `a2s up` keeps its data, or nothing.
func dataFolder() string {
	if folder := os.Getenv("A2S_DATA_DIR"); folder != "" {
		return folder
	}
	if folder := os.Getenv("XDG_DATA_HOME"); folder != "" {
		return filepath.Join(folder, "a2s")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share", "a2s")
}

// CheckHealth returns nil while the process of A2S lives.
func (r *Registry) CheckHealth(ctx context.Context) error {
	return r.check(ctx, "healthz")
}

// CheckReadiness returns nil when the services can work.
func (r *Registry) CheckReadiness(ctx context.Context) error {
	return r.check(ctx, "readyz")
}

func (r *Registry) check(ctx context.Context, route string) error {
	q := path(route)
	q.method = http.MethodGet
	return r.call(ctx, q.safe(), nil)
}
