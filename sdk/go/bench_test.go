package a2s_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	a2s "github.com/a2s/core"
)

// BenchmarkCalls compares calls of the SDK with bare requests for the same responses of the real server.
// Each is made in turn, so that the load of the machine is the same for both.
func BenchmarkCalls(b *testing.B) {
	w := openWorld(b)
	registry := w.registry()
	ctx := context.Background()
	for _, call := range []struct {
		name, method, path, body string
		sdk                      func() error
	}{
		{"read", http.MethodGet, "/v1/capabilities/GetJoke", "", func() error {
			return errorOf(registry.ListVersions(ctx, "GetJoke"))
		}},
		{"verify", http.MethodGet, "/v1/capabilities/GetCountry/1.0.0", "", func() error {
			return errorOf(registry.VerifyChecksum(ctx, a2s.CapabilityRef{Name: "GetCountry", Version: "1.0.0"}))
		}},
		{"search", http.MethodPost, "/v1/search", `{"intent":"list dog breeds"}`, func() error {
			return errorOf(registry.SearchCapabilities(ctx, "list dog breeds", nil))
		}},
	} {
		b.Run(call.name, func(b *testing.B) {
			var bare, sdk []time.Duration
			for range b.N {
				start := time.Now()
				w.bare(b, call.method, call.path, call.body)
				middle := time.Now()
				if err := call.sdk(); err != nil {
					b.Fatal(err)
				}
				bare, sdk = append(bare, middle.Sub(start)), append(sdk, time.Since(middle))
			}
			slices.Sort(bare)
			slices.Sort(sdk)
			one, other := bare[len(bare)/2], sdk[len(sdk)/2]
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(one.Microseconds()), "bare-µs")
			b.ReportMetric(float64(other.Microseconds()), "sdk-µs")
			b.ReportMetric(float64(other)/float64(one), "ratio")
		})
	}
}

// bare sends a request with net/http alone, and reads the response.
func (w *world) bare(b *testing.B, method, path, body string) {
	b.Helper()
	request, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Authorization", "Bearer "+w.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		b.Fatal(response.Status, err)
	}
}
