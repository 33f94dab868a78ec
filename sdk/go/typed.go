package a2s

import (
	"context"
	"encoding/json"
)

// TypedCapability is a version of a capability, its checksum, and the types of its inputs and outputs. A
// [TypedReference] is one.
type TypedCapability[Inputs, Outputs any] interface {
	// Reference returns the name, the version and the checksum.
	Reference() (name, version, checksum string)
	// Types returns empty inputs and outputs. The compiler infers the types from it.
	Types() (Inputs, Outputs)
}

// TypedReference gives types to a constant of `a2s types`, by a conversion:
//
//	getCountry := a2s.TypedReference[GetCountryInputs, GetCountryOutputs](GetCountry)
type TypedReference[Inputs, Outputs any] struct {
	Name     string
	Version  string
	Checksum string
}

// Reference returns the name, the version and the checksum.
func (r TypedReference[Inputs, Outputs]) Reference() (name, version, checksum string) {
	return r.Name, r.Version, r.Checksum
}

// Types returns empty inputs and outputs.
func (TypedReference[Inputs, Outputs]) Types() (inputs Inputs, outputs Outputs) { return }

// Ref returns the reference without its types, for the other calls of a [Registry].
func (r TypedReference[Inputs, Outputs]) Ref() CapabilityRef {
	return CapabilityRef{Name: r.Name, Version: r.Version, Checksum: r.Checksum}
}

// TypedRun is a run whose output has a type. The output has its zero value until the run has succeeded.
type TypedRun[Outputs any] struct {
	*Run
	Output Outputs
}

// Wait is [Run.Wait], and reads the output.
func (r *TypedRun[Outputs]) Wait(ctx context.Context) (*TypedRun[Outputs], error) {
	run, err := r.Run.Wait(ctx)
	return typedRun[Outputs](run, err)
}

// TypedPlan is the plan of a run whose output has a type.
type TypedPlan[Outputs any] struct {
	*Plan
}

// Run is [Plan.Run], and reads the output.
func (p *TypedPlan[Outputs]) Run(ctx context.Context, options *RunOptions) (*TypedRun[Outputs], error) {
	run, err := p.Plan.Run(ctx, options)
	return typedRun[Outputs](run, err)
}

// RunTyped is [Registry.Run] of a typed capability. The inputs of the options are not used.
func RunTyped[Inputs, Outputs any](ctx context.Context, registry *Registry, capability TypedCapability[Inputs, Outputs], inputs Inputs, options *RunOptions) (*TypedRun[Outputs], error) {
	own, err := typedOptions(inputs, options)
	if err != nil {
		return nil, err
	}
	run, err := registry.Run(ctx, untyped(capability), own)
	return typedRun[Outputs](run, err)
}

// StartTyped is [Registry.Start] of a typed capability. The inputs of the options are not used.
func StartTyped[Inputs, Outputs any](ctx context.Context, registry *Registry, capability TypedCapability[Inputs, Outputs], inputs Inputs, options *RunOptions) (*TypedRun[Outputs], error) {
	own, err := typedOptions(inputs, options)
	if err != nil {
		return nil, err
	}
	run, err := registry.Start(ctx, untyped(capability), own)
	return typedRun[Outputs](run, err)
}

// PlanTyped is [Registry.Plan] of a typed capability. The inputs of the options are not used.
func PlanTyped[Inputs, Outputs any](ctx context.Context, registry *Registry, capability TypedCapability[Inputs, Outputs], inputs Inputs, options *PlanOptions) (*TypedPlan[Outputs], error) {
	values, err := typedInputs(inputs)
	if err != nil {
		return nil, err
	}
	var own PlanOptions
	if options != nil {
		own = *options
	}
	own.Inputs = values
	plan, err := registry.Plan(ctx, untyped(capability), &own)
	if err != nil {
		return nil, err
	}
	return &TypedPlan[Outputs]{plan}, nil
}

func untyped[Inputs, Outputs any](capability TypedCapability[Inputs, Outputs]) CapabilityRef {
	name, version, checksum := capability.Reference()
	return CapabilityRef{Name: name, Version: version, Checksum: checksum}
}

func typedOptions(inputs any, options *RunOptions) (*RunOptions, error) {
	values, err := typedInputs(inputs)
	if err != nil {
		return nil, err
	}
	var own RunOptions
	if options != nil {
		own = *options
	}
	own.Inputs = values
	return &own, nil
}

// typedInputs returns the values of a struct of `a2s types`.
func typedInputs(inputs any) (Values, error) {
	text, err := json.Marshal(inputs)
	var values Values
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil {
		return nil, &InvalidInput{&A2SError{Message: "the inputs are no JSON object: " + err.Error(), cause: err}}
	}
	return values, nil
}

// typedRun reads the output of a run.
func typedRun[Outputs any](run *Run, err error) (*TypedRun[Outputs], error) {
	if err != nil {
		return nil, err
	}
	typed := &TypedRun[Outputs]{Run: run}
	if run.RunRecord.Output == nil {
		return typed, nil
	}
	if err := run.DecodeOutput(&typed.Output); err != nil {
		return nil, &A2SError{Message: "the output of the run has another type: " + err.Error(), Run: run, cause: err}
	}
	return typed, nil
}
