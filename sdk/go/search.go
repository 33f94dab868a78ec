package a2s

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/a2s/core/internal/strictjson"
)

// SearchOptions are the optional settings of a search.
type SearchOptions struct {
	// Limit is the largest number of hits, 1 to 100. Without it, there are at most 10.
	Limit int
	// Cursor is Next of the page before.
	Cursor string
	// Strategy ranks the capabilities that fit.
	Strategy Strategy
	// Filters exclude capabilities.
	Filters *SearchFilters
}

func (o *SearchOptions) request() SearchRequest {
	if o == nil {
		return SearchRequest{}
	}
	body := SearchRequest{Cursor: o.Cursor, Strategy: o.Strategy, Filters: o.Filters}
	if o.Limit != 0 {
		body.Limit = &o.Limit
	}
	return body
}

func (o *SearchOptions) forIntent(intent string) SearchRequest {
	body := o.request()
	body.Intent = intent
	// An empty intent is sent, too: A2S says what is wrong with it.
	body.keep("intent", strictjson.Value{Raw: `""`})
	return body
}

// SearchResult is the result of a search.
type SearchResult struct {
	// Hits are the capabilities that fit, best first.
	Hits []SearchHit
	// Nearest are the nearest capabilities when nothing fits. Read them before you run one.
	Nearest []NearMiss
	// Metadata describes the search.
	Metadata SearchMetadata
	// Next is the cursor of the next page. It is empty on the last one.
	Next string
}

// MarshalJSON writes the members that all SDKs of A2S write.
func (s SearchResult) MarshalJSON() ([]byte, error) {
	hits := s.Hits
	if hits == nil {
		hits = []SearchHit{}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		Hits     []SearchHit    `json:"hits"`
		Nearest  []NearMiss     `json:"nearest,omitempty"`
		Metadata SearchMetadata `json:"metadata"`
		Next     string         `json:"next,omitempty"`
	}{hits, s.Nearest, s.Metadata, s.Next})
	return out.Bytes(), err
}

func newSearchResult(hits []SearchHit, metadata SearchMetadata, next string) *SearchResult {
	return &SearchResult{hits, metadata.Nearest, metadata, next}
}

// SearchCapabilities finds capabilities that do what the intent says, in words.
func (r *Registry) SearchCapabilities(ctx context.Context, intent string, options *SearchOptions) (*SearchResult, error) {
	body := options.forIntent(intent)
	found, err := fetch[SearchResponse](ctx, r, post("search").safe().json(body))
	if err != nil {
		return nil, err
	}
	return newSearchResult(found.Capabilities, found.Metadata, found.Next), nil
}

// SearchCapabilitiesForEach searches for each of up to 16 intents, and returns the results in their order.
func (r *Registry) SearchCapabilitiesForEach(ctx context.Context, intents []string, options *SearchOptions) ([]*SearchResult, error) {
	body := options.request()
	body.Intents = intents
	found, err := fetch[BatchSearchResponse](ctx, r, post("search").safe().json(body))
	if err != nil {
		return nil, err
	}
	results := make([]*SearchResult, len(found.Responses))
	for i, one := range found.Responses {
		results[i] = newSearchResult(one.Capabilities, one.Metadata, one.Next)
	}
	return results, nil
}

// SearchServices finds services whose capabilities do what the intent says.
func (r *Registry) SearchServices(ctx context.Context, intent string, options *SearchOptions) (*ServiceSearchResponse, error) {
	body := options.forIntent(intent)
	body.Level = SearchLevelServices
	return fetch[ServiceSearchResponse](ctx, r, post("search").safe().json(body))
}
