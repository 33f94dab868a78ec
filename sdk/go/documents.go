package a2s

import (
	"context"
	"errors"
	"iter"
	"strconv"
)

// ListVersions returns all versions of a capability.
func (r *Registry) ListVersions(ctx context.Context, name string) (*CapabilityVersions, error) {
	return fetch[CapabilityVersions](ctx, r, get("capabilities", name))
}

// GraphOptions are the optional settings of a graph.
type GraphOptions struct {
	// Version is the version; without it the graph is that of the latest.
	Version string
	// Depth is the largest distance of a dependency or dependent.
	Depth int
	// Impact adds what a yank of the version would break.
	Impact bool
}

// GetGraph returns the dependencies and dependents of a capability, and the capabilities that share its
// services and values.
func (r *Registry) GetGraph(ctx context.Context, name string, options *GraphOptions) (*CapabilityGraph, error) {
	if options == nil {
		options = &GraphOptions{}
	}
	q := get("capabilities", name, "graph")
	if options.Version != "" {
		q = get("capabilities", name, options.Version, "graph")
	}
	if options.Depth != 0 {
		q = q.with("depth", strconv.Itoa(options.Depth))
	}
	if options.Impact {
		q = q.with("impact", "true")
	}
	return fetch[CapabilityGraph](ctx, r, q)
}

// GetStats returns the outcomes of the runs of a version.
func (r *Registry) GetStats(ctx context.Context, name, version string) (*CapabilityStats, error) {
	return fetch[CapabilityStats](ctx, r, get("capabilities", name, version, "stats"))
}

// GetIndex returns the state of the search index.
func (r *Registry) GetIndex(ctx context.Context) (*IndexStatus, error) {
	return fetch[IndexStatus](ctx, r, get("index"))
}

// VerifyStored lets the registry compute the checksum of its stored document. [Registry.VerifyChecksum]
// does not believe the registry. Without a version, it is the latest.
func (r *Registry) VerifyStored(ctx context.Context, name, version string) (*VerifyResponse, error) {
	return fetch[VerifyResponse](ctx, r, post("verify").safe().json(VerifyRequest{Name: name, Version: version}))
}

// FollowChanges returns the changes of the registry after the one with this number, as they happen. It
// ends when the server ends the stream, or with an error. A lost connection is opened again.
func (r *Registry) FollowChanges(ctx context.Context, since int64) iter.Seq2[RegistryChange, error] {
	return func(yield func(RegistryChange, error) bool) {
		q := get("changes").with("since", strconv.FormatInt(since, 10))
		err := r.follow(ctx, q, 0, func(m message) (bool, error) {
			var change RegistryChange
			if err := unmarshal([]byte(m.data), &change); err != nil {
				return false, err
			}
			if !yield(change, nil) {
				return false, errStopped
			}
			return true, nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(RegistryChange{}, err)
		}
	}
}

// Source is the content of a document to publish: a [YAML] text, a [JSON] value or a [Document].
type Source interface {
	source() (mediaType string, content []byte, err error)
}

// YAML is the text of a document. Text in JSON is YAML, too.
type YAML string

func (y YAML) source() (string, []byte, error) { return "application/yaml", []byte(y), nil }

// JSON returns a document whose content is a Go value.
func JSON(value any) Source { return jsonSource{value} }

type jsonSource struct{ value any }

func (j jsonSource) source() (string, []byte, error) {
	text, err := marshal(j.value)
	return "application/json", text, err
}

func (d *Document) source() (string, []byte, error) { return "application/json", d.text, nil }

func sendSource(q request, document Source) request {
	mediaType, content, err := document.source()
	if err != nil {
		q.failed = err
	}
	return q.raw(mediaType, content)
}

// Validate returns the place of each example intent of a document in a search. If the document has
// errors, the error is an [InvalidDocument] with all of them. It publishes nothing.
func (r *Registry) Validate(ctx context.Context, document Source) (*FindabilityReport, error) {
	return fetch[FindabilityReport](ctx, r, sendSource(post("findability").safe(), document))
}

// CreateDrafts makes a document of each operation of an OpenAPI description. It publishes nothing.
func (r *Registry) CreateDrafts(ctx context.Context, request DraftRequest) (*DraftList, error) {
	return fetch[DraftList](ctx, r, post("drafts").safe().json(request))
}

// Publish publishes a document. The same content again is no error.
func (r *Registry) Publish(ctx context.Context, document Source) (*PublishResponse, error) {
	return fetch[PublishResponse](ctx, r, sendSource(post("capabilities").safe(), document))
}

// Yank withdraws a version: searches do not find it, and it can still be fetched by its number.
func (r *Registry) Yank(ctx context.Context, name, version string) (*LifecycleResponse, error) {
	return fetch[LifecycleResponse](ctx, r, post("capabilities", name, version, "yank"))
}

// ForceYank withdraws a version even if published versions break. Yank is refused then.
func (r *Registry) ForceYank(ctx context.Context, name, version string) (*LifecycleResponse, error) {
	return fetch[LifecycleResponse](ctx, r, post("capabilities", name, version, "yank").with("force", "true"))
}

// Unyank restores a yanked version.
func (r *Registry) Unyank(ctx context.Context, name, version string) (*LifecycleResponse, error) {
	return fetch[LifecycleResponse](ctx, r, post("capabilities", name, version, "unyank"))
}

// Deprecate advises against a version. With Undo, it takes the advice back.
func (r *Registry) Deprecate(ctx context.Context, name, version string, advice DeprecateRequest) (*LifecycleResponse, error) {
	return fetch[LifecycleResponse](ctx, r, post("capabilities", name, version, "deprecate").json(advice))
}

// ListOwners returns the owners of a name, who may publish under it.
func (r *Registry) ListOwners(ctx context.Context, name string) (*OwnerList, error) {
	return fetch[OwnerList](ctx, r, get("capabilities", name, "owners"))
}

// OwnerChange is a change of the owners of a name. Exactly one member has a value.
type OwnerChange struct {
	// Add is the name of a token that becomes an owner.
	Add string `json:"add,omitempty"`
	// Remove is the name of an owner to remove.
	Remove string `json:"remove,omitempty"`
	// Transfer is the name of a token that becomes the only owner.
	Transfer string `json:"transfer,omitempty"`
}

// ChangeOwners changes the owners of a name.
func (r *Registry) ChangeOwners(ctx context.Context, name string, change OwnerChange) (*OwnerList, error) {
	return fetch[OwnerList](ctx, r, post("capabilities", name, "owners").json(change))
}

// ForgetIntents removes everything that the registry has learned for a capability.
func (r *Registry) ForgetIntents(ctx context.Context, name string) (*ForgetResponse, error) {
	return fetch[ForgetResponse](ctx, r, del("capabilities", name, "learned"))
}
