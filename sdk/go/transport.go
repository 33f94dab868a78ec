package a2s

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/a2s/core/internal/strictjson"
)

// maxResponse is the largest size of a response, in bytes.
const maxResponse = 64 << 20

// Retry says how a request is tried again.
type Retry struct {
	// Attempts is the largest number of attempts. It is 3 if it is 0.
	Attempts int
	// Pause is the pause after the first attempt; each further one is twice as long, up to ten seconds, give
	// or take 25 %. It is 500 ms if it is 0. A pause that A2S states in `Retry-After` counts instead.
	Pause time.Duration
	// MaxPause is the longest pause. If A2S wants a longer one, the request is not tried again. It is one
	// minute if it is 0.
	MaxPause time.Duration
	// ApprovalPause is the pause between two looks at a run that waits for an approval. It is two seconds
	// if it is 0.
	ApprovalPause time.Duration
	// Reconnect is the time, in pauses, for which a lost stream or a run that is waited for is tried again.
	// It is five minutes if it is 0.
	Reconnect time.Duration
	// IdleTimeout is the silence after which a stream counts as lost. A2S writes into an idle stream every
	// 15 seconds. It is 45 seconds if it is 0.
	IdleTimeout time.Duration
	// Sleep makes the pauses. Without it, they are real.
	Sleep func(ctx context.Context, pause time.Duration) error
}

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = 3
	}
	if r.Pause <= 0 {
		r.Pause = 500 * time.Millisecond
	}
	if r.MaxPause <= 0 {
		r.MaxPause = time.Minute
	}
	if r.ApprovalPause <= 0 {
		r.ApprovalPause = 2 * time.Second
	}
	if r.Reconnect <= 0 {
		r.Reconnect = 5 * time.Minute
	}
	if r.IdleTimeout <= 0 {
		r.IdleTimeout = 45 * time.Second
	}
	if r.Sleep == nil {
		r.Sleep = sleep
	}
	return r
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// longestPause is the longest pause that A2S did not ask for.
const longestPause = 10 * time.Second

// tries are the tries of one request, or of one stream since its last progress.
type tries struct {
	retry      Retry
	repeatable bool
	// patient says that A2S was there, so that a restart is the likely reason of a loss.
	patient bool
	made    int
	paused  time.Duration
}

// noteProgress begins anew.
func (t *tries) noteProgress() { t.made, t.paused, t.patient = 0, 0, true }

// next reports whether another try follows an error, and the pause before it.
func (t *tries) next(err error) (time.Duration, bool) {
	t.made++
	var safe, busy bool
	var wanted time.Duration
	switch e := err.(type) {
	case *refusal:
		wanted = e.response.retryAfter()
		switch e.response.status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			busy = true
		case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
			safe = t.repeatable
		}
	case *lost:
		// After the time limit of a request, another attempt would have the same limit.
		safe = t.repeatable && !errors.Is(err, context.DeadlineExceeded)
	}
	if !safe && !busy || wanted > t.retry.MaxPause {
		return 0, false
	}
	even := min(t.retry.Pause<<min(t.made-1, 16), longestPause, t.retry.MaxPause)
	t.paused += even
	if t.patient && t.paused > t.retry.Reconnect || !t.patient && t.made >= t.retry.Attempts {
		return 0, false
	}
	if wanted > 0 {
		return wanted, true
	}
	// Clients that a restart has stopped at the same time come back at different times.
	return even*3/4 + rand.N(even/2+1), true
}

// request is a request to A2S.
type request struct {
	method string
	path   string
	query  url.Values
	header map[string]string
	// body is sent as it is, with its media type.
	body      []byte
	mediaType string
	// repeatable says that a repetition is safe when the connection was lost.
	repeatable bool
	// patient says that the request is sent again for as long as a restart of A2S takes.
	patient bool
	// failed is an error that was found before the request could leave.
	failed error
}

// response is a response that was read to its end.
type response struct {
	status int
	header http.Header
	body   []byte
}

// path joins the escaped segments of a path. An empty segment would be another route.
func path(segments ...string) request {
	var q request
	for _, segment := range segments {
		switch segment {
		case "", ".", "..":
			q.failed = &InvalidInput{&A2SError{Message: fmt.Sprintf("%q cannot be a part of an address", segment)}}
		}
		// A plus for a space belongs to forms alone.
		q.path += "/" + strings.ReplaceAll(url.QueryEscape(segment), "+", "%20")
	}
	return q
}

func get(segments ...string) request {
	q := path(append([]string{"v1"}, segments...)...)
	q.method = http.MethodGet
	q.repeatable = true
	return q
}

func post(segments ...string) request {
	q := path(append([]string{"v1"}, segments...)...)
	q.method = http.MethodPost
	return q
}

func put(segments ...string) request {
	q := get(segments...)
	q.method = http.MethodPut
	return q
}

func del(segments ...string) request {
	q := get(segments...)
	q.method = http.MethodDelete
	return q
}

// safe marks a request whose repetition has no further effect.
func (q request) safe() request {
	q.repeatable = true
	return q
}

// with adds a parameter of the query, unless it is empty.
func (q request) with(name, value string) request {
	if value != "" {
		if q.query == nil {
			q.query = url.Values{}
		}
		q.query.Set(name, value)
	}
	return q
}

// headed adds a header, unless it is empty.
func (q request) headed(name, value string) request {
	if value != "" {
		header := maps.Clone(q.header)
		if header == nil {
			header = map[string]string{}
		}
		header[name] = value
		q.header = header
	}
	return q
}

// json sets a body.
func (q request) json(body any) request {
	text, err := marshal(body)
	if err != nil {
		q.failed = err
	}
	return q.raw("application/json", text)
}

func (q request) raw(mediaType string, body []byte) request {
	q.mediaType = mediaType
	q.body = body
	return q
}

// call sends a request, and reads the response into a value, unless it is nil.
func (r *Registry) call(ctx context.Context, q request, into any) error {
	response, err := r.send(ctx, q)
	if err != nil || into == nil {
		return err
	}
	value, err := strictjson.Parse(string(response.body))
	if err == nil {
		err = decodeInto(value, into)
	}
	if err != nil {
		return &A2SError{
			Status:  response.status,
			Message: "the response cannot be read: " + err.Error(),
			Hint:    "Check that the address is that of A2S, with a compatible version.",
			cause:   err,
		}
	}
	return nil
}

// fetch is call for a value of a known type.
func fetch[T any](ctx context.Context, r *Registry, q request) (*T, error) {
	into := new(T)
	if err := r.call(ctx, q, into); err != nil {
		return nil, err
	}
	return into, nil
}

// send sends a request, again where that is safe, and returns the response if it is a success.
func (r *Registry) send(ctx context.Context, q request) (*response, error) {
	var got *response
	err := r.try(ctx, q, func(ctx context.Context) error {
		if r.timeout > 0 {
			limited, cancel := context.WithTimeout(ctx, r.timeout)
			defer cancel()
			ctx = limited
		}
		opened, err := r.open(ctx, q)
		if err != nil {
			return err
		}
		got, err = readResponse(opened)
		if err != nil {
			return err
		}
		return got.problem()
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// problem returns the error of a response that is not a success.
func (r *response) problem() error {
	if 200 <= r.status && r.status < 300 {
		return nil
	}
	return &refusal{problemError(r), r}
}

// refusal is the error of a response, until it is clear that the request is not tried again.
type refusal struct {
	error
	response *response
}

// lost is the error of a connection without a response.
type lost struct{ error }

// try makes attempts until one succeeds or another would be wrong.
func (r *Registry) try(ctx context.Context, q request, attempt func(ctx context.Context) error) error {
	if q.failed != nil {
		return q.failed
	}
	if r.failed != nil {
		return r.failed
	}
	tries := tries{retry: r.retry, repeatable: q.repeatable, patient: q.patient}
	for {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause, again := tries.next(err)
		if !again {
			return final(err)
		}
		if err := r.retry.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// final returns the error for the caller.
func final(err error) error {
	switch e := err.(type) {
	case *refusal:
		return e.error
	case *lost:
		return connectionError("A2S does not answer", e.error)
	}
	return err
}

func (e *lost) Unwrap() error { return e.error }

// open sends a request once. It is the only place where requests leave.
func (r *Registry) open(ctx context.Context, q request) (*http.Response, error) {
	address := r.url + q.path
	if len(q.query) > 0 {
		// Encode sorts the parameters. `+` for a space belongs to forms alone.
		address += "?" + strings.ReplaceAll(q.query.Encode(), "+", "%20")
	}
	var body io.Reader
	if q.body != nil {
		body = bytes.NewReader(q.body)
	}
	out, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, err
	}
	out.Header.Set("Accept", "application/json")
	if q.mediaType != "" {
		out.Header.Set("Content-Type", q.mediaType)
	}
	if r.token != "" {
		out.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, value := range q.header {
		out.Header.Set(name, value)
	}
	response, err := r.client.Do(out)
	if err != nil {
		return nil, &lost{err}
	}
	return response, nil
}

// readResponse reads a response to its end.
func readResponse(opened *http.Response) (*response, error) {
	defer opened.Body.Close()
	body, err := io.ReadAll(io.LimitReader(opened.Body, maxResponse+1))
	if err != nil {
		return nil, &lost{err}
	}
	if len(body) > maxResponse {
		return nil, &A2SError{
			Status:  opened.StatusCode,
			Message: fmt.Sprintf("the response is larger than %d bytes", maxResponse),
		}
	}
	return &response{opened.StatusCode, opened.Header, body}, nil
}

// retryAfter returns the pause that a response asks for: seconds, or a date (RFC 9110, section 10.2.3). A
// date counts from the `Date` of the response: clocks differ.
func (r *response) retryAfter() time.Duration {
	wanted := r.header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(wanted, 64); err == nil && 0 < seconds && seconds < 1<<31 {
		return time.Duration(seconds * float64(time.Second))
	}
	if date, err := http.ParseTime(wanted); err == nil {
		now, err := http.ParseTime(r.header.Get("Date"))
		if err != nil {
			now = time.Now()
		}
		return max(0, date.Sub(now))
	}
	return 0
}
