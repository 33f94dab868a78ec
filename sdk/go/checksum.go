package a2s

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/a2s/core/internal/strictjson"
)

const (
	// maxInteger is the largest integral number of a document. Beyond it, different integers are the same
	// double, and two documents could have one checksum.
	maxInteger = 1<<53 - 1
	// maxLevels is the largest number of levels of a document. A scalar has one.
	maxLevels = 64
)

// Canonicalize returns the form of RFC 8785 of a JSON text. It refuses a text with a name that occurs
// twice in an object, half of a surrogate pair, a number beyond the range of doubles, or more than 256
// levels.
func Canonicalize(text []byte) ([]byte, error) {
	value, err := strictjson.Parse(string(text))
	if err != nil {
		return nil, err
	}
	return strictjson.AppendCanonical(nil, value), nil
}

// ComputeChecksum returns the checksum of a document in JSON: `sha256:` and the digest of its canonical
// form without the member `checksum`. It refuses what [Canonicalize] refuses, and what documents cannot
// contain: integral numbers beyond ±(2⁵³ − 1), and more than 64 levels.
func ComputeChecksum(document []byte) (string, error) {
	value, err := strictjson.Parse(string(document))
	if err != nil {
		return "", err
	}
	return checksumOf(value)
}

func checksumOf(document strictjson.Value) (string, error) {
	if err := checkLimits(document, 1); err != nil {
		return "", err
	}
	document.Members = slices.DeleteFunc(slices.Clone(document.Members), func(m strictjson.Member) bool {
		return document.Kind == strictjson.Object && m.Name == "checksum"
	})
	digest := sha256.Sum256(strictjson.AppendCanonical(nil, document))
	return "sha256:" + hex.EncodeToString(digest[:]), nil
}

// checkLimits refuses what a document cannot contain.
func checkLimits(value strictjson.Value, level int) error {
	if level > maxLevels {
		return fmt.Errorf("a document with more than %d levels", maxLevels)
	}
	if value.Kind == strictjson.Number {
		if f := value.Float(); f == math.Trunc(f) && math.Abs(f) > maxInteger {
			return fmt.Errorf("a document with an integral number beyond ±%d", int64(maxInteger))
		}
	}
	for i := range value.Members {
		if err := checkLimits(value.Members[i].Value, level+1); err != nil {
			return err
		}
	}
	return nil
}

// Capability names a version of a capability: a [SearchHit], a [CapabilityRef], a
// [CapabilitySummary] or a [Document].
type Capability interface {
	// Ref returns name, version and checksum, as far as they are known.
	Ref() CapabilityRef
}

// Ref returns the reference itself. A reference that a program makes needs only a name: without a
// version it means the latest, without a checksum any content.
func (c CapabilityRef) Ref() CapabilityRef { return c }

// Ref returns the version that the search found.
func (h SearchHit) Ref() CapabilityRef {
	return CapabilityRef{Name: h.Name, Version: h.Version, Checksum: h.Checksum}
}

// Ref returns the version that is summarized.
func (s CapabilitySummary) Ref() CapabilityRef {
	return CapabilityRef{Name: s.Name, Version: s.Version, Checksum: s.Checksum}
}

// Document is a document whose checksum was computed on this side.
type Document struct {
	text     []byte
	name     string
	version  string
	checksum string
}

// ParseDocument reads a document in JSON, and computes its checksum. It does not compare it.
func ParseDocument(text []byte) (*Document, error) {
	value, err := strictjson.Parse(string(text))
	if err != nil {
		return nil, err
	}
	if value.Kind != strictjson.Object {
		return nil, fmt.Errorf("a document that is not an object")
	}
	checksum, err := checksumOf(value)
	if err != nil {
		return nil, err
	}
	d := &Document{text: slices.Clone(text), checksum: checksum}
	d.name, _ = textMember(value, "name")
	d.version, _ = textMember(value, "version")
	return d, nil
}

func textMember(object strictjson.Value, name string) (string, bool) {
	if member, found := object.Member(name); found && member.Kind == strictjson.String {
		return member.Text(), true
	}
	return "", false
}

// Name returns the name of the capability.
func (d *Document) Name() string { return d.name }

// Version returns the version as it is written in the document, such as 1.0.
func (d *Document) Version() string { return d.version }

// Checksum returns the checksum that was computed on this side.
func (d *Document) Checksum() string { return d.checksum }

// Ref returns name, version and computed checksum.
func (d *Document) Ref() CapabilityRef {
	return CapabilityRef{Name: d.name, Version: fullVersion(d.version), Checksum: d.checksum}
}

// MarshalJSON returns the document as it came.
func (d *Document) MarshalJSON() ([]byte, error) { return d.text, nil }

// Decode reads the document into a value, like [json.Unmarshal].
func (d *Document) Decode(into any) error { return json.Unmarshal(d.text, into) }

// declared returns the member `checksum` of the document.
func (d *Document) declared() string {
	value, err := strictjson.Parse(string(d.text))
	if err != nil {
		return ""
	}
	checksum, _ := textMember(value, "checksum")
	return checksum
}

// verified returns the document if it has the expected checksum. The prefix `sha256:` may be missing.
func (d *Document) verified(expected string) (*Document, error) {
	if d.checksum == expected || d.checksum == "sha256:"+expected {
		return d, nil
	}
	return nil, &ChecksumMismatch{
		Drifted: &Drifted{A2SError: &A2SError{
			Message: fmt.Sprintf("%s has the checksum %s, and %q was expected", d.name, d.checksum, expected),
			Hint:    "Do not run it: the document is not the one that was found.",
		}},
		Expected: expected,
		Computed: d.checksum,
	}
}

// GetCapability returns the document of a version; without a version, that of the latest. It computes
// the checksum of the document and compares it with the one that the document states. To compare it
// with the one of a search, use [Registry.VerifyChecksum].
func (r *Registry) GetCapability(ctx context.Context, name, version string) (*Document, error) {
	document, err := r.getDocument(ctx, name, version)
	if err != nil {
		return nil, err
	}
	if _, err := document.verified(document.declared()); err != nil {
		return nil, err
	}
	if err := document.checkVersion(name, version); err != nil {
		return nil, err
	}
	return document, nil
}

// VerifyChecksum returns the document of a capability, after it has computed the checksum on this side
// and compared it with the one of the capability. It does not believe the registry. For a [Document] it
// compares with the checksum that the document states, and sends nothing; so it does for a
// [CapabilityRef] without a checksum, after it has fetched the document. If the checksums differ, the
// error is a [ChecksumMismatch]; a [Drifted] for another version than the wanted one, and for a hit with other
// words, permissions or inputs than its document.
func (r *Registry) VerifyChecksum(ctx context.Context, capability Capability) (*Document, error) {
	if document, ok := capability.(*Document); ok {
		return document.verified(document.declared())
	}
	ref, err := pinned(capability)
	if err != nil {
		return nil, err
	}
	document, err := r.getDocument(ctx, ref.Name, ref.Version)
	if err != nil {
		return nil, err
	}
	if ref.Checksum == "" {
		ref.Checksum = document.declared()
	}
	if _, err := document.verified(ref.Checksum); err != nil {
		return nil, err
	}
	if err := cmp.Or(document.checkVersion(ref.Name, ref.Version), compareWithHit(capability, document)); err != nil {
		return nil, err
	}
	return document, nil
}

// pinned returns the reference to a capability. What a registry has found must have a checksum: without
// one, any content would do.
func pinned(capability Capability) (CapabilityRef, error) {
	ref := capability.Ref()
	switch capability.(type) {
	case SearchHit, *SearchHit, CapabilitySummary, *CapabilitySummary:
		if ref.Version == "" || ref.Checksum == "" {
			return ref, &InvalidInput{&A2SError{
				Message: fmt.Sprintf("%q was found without a version or a checksum", ref.Name),
			}}
		}
	}
	return CapabilityRef{Name: ref.Name, Version: ref.Version, Checksum: ref.Checksum}, nil
}

func (r *Registry) getDocument(ctx context.Context, name, version string) (*Document, error) {
	if version == "" {
		version = "latest"
	}
	response, err := r.send(ctx, get("capabilities", name, version))
	if err != nil {
		return nil, err
	}
	document, err := ParseDocument(response.body)
	if err != nil {
		return nil, &InvalidDocument{A2SError: &A2SError{
			Status:  response.status,
			Message: "the document cannot be trusted: " + err.Error(),
			cause:   err,
		}}
	}
	return document, nil
}
