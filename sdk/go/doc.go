// Package a2s finds and runs capabilities of A2S.
//
// A [Registry] is an A2S at one address. The program searches for what a person or an agent wants, in
// words, verifies the checksum of what it found, plans a run, and starts exactly this plan:
//
//	found, err := registry.SearchCapabilities(ctx, "which kinds of dogs are there", nil)
//	document, err := registry.VerifyChecksum(ctx, found.Hits[0])
//	plan, err := registry.Plan(ctx, document, nil)
//	run, err := plan.Run(ctx, nil)
//
// An [Agent] does all of this by itself, and asks for missing inputs and for consent.
//
// The package computes checksums itself and does not believe the registry. Errors are types: each embeds
// [A2SError], and errors.As finds it, for example as [NeedsApproval]. The types of the API are generated
// from its description; a value that came from A2S is marshalled with all its members.
package a2s

//go:generate go run ./internal/generate
