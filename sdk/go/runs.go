package a2s

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Name is the name of a capability. It stands for its latest version, whatever its content.
type Name string

// Ref returns a reference that has only the name.
func (n Name) Ref() CapabilityRef { return CapabilityRef{Name: string(n)} }

// PlanOptions are the optional settings of a plan.
type PlanOptions struct {
	// Inputs are the values of inputs.
	Inputs Values
	// Session is the session that the run belongs to.
	Session string
	// Lock are the only allowed versions of dependencies.
	Lock []CapabilityRef
	// Preview asks the guardian about each step whose inputs are known.
	Preview bool
}

// Plan is the plan of a run: its requests, versions, inputs and guardians. [Plan.Run] starts exactly this,
// once. A plan that was read from JSON has no registry: give it to [Registry.Run].
type Plan struct {
	PlanResponse
	registry *Registry
}

// Plan returns the plan of a run of a capability. A2S sends nothing to a service for it.
func (r *Registry) Plan(ctx context.Context, capability Capability, options *PlanOptions) (*Plan, error) {
	ref, err := pinned(capability)
	if err != nil {
		return nil, err
	}
	if options == nil {
		options = &PlanOptions{}
	}
	plan := &Plan{registry: r}
	err = r.call(ctx, post("plans").safe().json(PlanRequest{
		Name:     ref.Name,
		Version:  ref.Version,
		Checksum: ref.Checksum,
		Inputs:   options.Inputs,
		Session:  options.Session,
		Lock:     options.Lock,
		Preview:  options.Preview,
	}), &plan.PlanResponse)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(plan.Capability.Checksum, ref.Checksum, nil); err != nil {
		return nil, err
	}
	return plan, nil
}

// Ref returns the version that was planned.
func (p *Plan) Ref() CapabilityRef { return p.Capability }

// Run starts the plan, waits until the run is at rest, and returns it, or the error of its end.
func (p *Plan) Run(ctx context.Context, options *RunOptions) (*Run, error) {
	return p.registry.Run(ctx, p, options)
}

// start returns the request that starts the plan.
func (p *Plan) start() (ExecutionRequest, error) {
	if p.Token != "" {
		return ExecutionRequest{Plan: p.Token}, nil
	}
	base := &A2SError{Message: "the plan cannot be started", Hint: p.NoTokenReason}
	if len(p.Missing) == 0 {
		return ExecutionRequest{}, &InvalidInput{base}
	}
	base.Code = "A2S320"
	base.Message = fmt.Sprintf("%s requires values for the inputs %q", p.Capability.Name, p.Missing)
	missing := &MissingInput{A2SError: base}
	for _, name := range p.Missing {
		missing.Missing = append(missing.Missing, InputField{Name: name, Required: true})
	}
	return ExecutionRequest{}, missing
}

// RunOptions are the optional settings of a run. A [Plan] has its inputs and its session already.
type RunOptions struct {
	// Inputs are the values of inputs.
	Inputs Values
	// Session is the session that the run belongs to.
	Session string
	// Intent has the words of the search that led to this run. A registry may learn from them.
	Intent string
	// Lock are the only allowed versions of dependencies.
	Lock []CapabilityRef
	// IdempotencyKey makes a repeated start the same run. Without it, each call has a new one.
	IdempotencyKey string
	// OnAbort is the fate of the run if the context of a call that waits ends: without it, [AbortCancel].
	OnAbort OnAbort
}

// OnAbort is the fate of a run whose caller does not wait for it any more.
type OnAbort int

const (
	// AbortCancel cancels the run.
	AbortCancel OnAbort = iota
	// AbortDetach lets the run go on.
	AbortDetach
)

// Run starts a run, waits until it is at rest, and returns it. If it did not succeed, the error is that
// of its end: [Denied], [NeedsApproval], [OutcomeUnknown], [NotReachable], [InvalidInput] or [RunFailed].
// The capability may be a [Plan]. When the context ends before the run, the run is cancelled, or goes on with
// [AbortDetach]; the error is then [Interrupted], which has the run.
func (r *Registry) Run(ctx context.Context, capability Capability, options *RunOptions) (*Run, error) {
	run, err := r.Start(ctx, capability, options)
	if err != nil {
		return nil, err
	}
	return run.own(ctx, options, run.result)
}

// Start starts a run, and returns it at once.
func (r *Registry) Start(ctx context.Context, capability Capability, options *RunOptions) (*Run, error) {
	if options == nil {
		options = &RunOptions{}
	}
	body, err := execution(capability, options)
	if err != nil {
		return nil, err
	}
	key := options.IdempotencyKey
	if key == "" {
		key = newKey()
	}
	q := post("executions").safe().headed("Idempotency-Key", key).json(body)
	return r.start(ctx, q, capability, options)
}

// abortGrace is the time for which an aborted caller waits for the response to a start. After it, the run
// is cancelled as soon as the response comes.
const abortGrace = time.Second

// start sends a request that starts a run. The response comes at once.
func (r *Registry) start(ctx context.Context, q request, capability Capability, options *RunOptions) (*Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type result struct {
		run *Run
		err error
	}
	// A start is not aborted: the run could have begun, and no caller would know its id.
	started := make(chan result, 1)
	go func() {
		run, err := r.runOf(context.WithoutCancel(ctx), q)
		started <- result{run, err}
	}()
	var got result
	select {
	case got = <-started:
	case <-ctx.Done():
		select {
		case got = <-started:
		case <-time.After(abortGrace):
			go func() {
				if late := <-started; late.err == nil && options.OnAbort == AbortCancel {
					_ = late.run.Cancel(context.WithoutCancel(ctx))
				}
			}()
			return nil, ctx.Err()
		}
	}
	if got.err != nil {
		return nil, got.err
	}
	if err := checkVersion(got.run.Checksum, capability.Ref().Checksum, got.run); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return got.run.own(ctx, options, func(ctx context.Context) error { return ctx.Err() })
	}
	return got.run, nil
}

// checkVersion returns an error when the executor has taken another content than the wanted one.
func checkVersion(taken, wanted string, run *Run) error {
	if wanted == "" || taken == wanted || taken == "sha256:"+wanted {
		return nil
	}
	return &Drifted{A2SError: &A2SError{
		Message: fmt.Sprintf("the executor has taken %q, not %s", taken, wanted),
		Hint:    "Do not trust this executor: it does not run what was asked for.",
		Run:     run,
	}}
}

func execution(capability Capability, options *RunOptions) (ExecutionRequest, error) {
	if plan, ok := capability.(*Plan); ok {
		body, err := plan.start()
		body.Intent = options.Intent
		return body, err
	}
	ref, err := pinned(capability)
	return ExecutionRequest{
		Name:     ref.Name,
		Version:  ref.Version,
		Checksum: ref.Checksum,
		Inputs:   options.Inputs,
		Session:  options.Session,
		Intent:   options.Intent,
		Lock:     options.Lock,
	}, err
}

func newKey() string {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // it never fails: it ends the program where there is no randomness
	return hex.EncodeToString(key)
}

// Trigger starts a run for an event, waits until it is at rest, and returns it, or the error of its end.
// The same event gives the same run.
func (r *Registry) Trigger(ctx context.Context, event TriggerEvent, capability Capability, options *RunOptions) (*Run, error) {
	if options == nil {
		options = &RunOptions{}
	}
	body, err := execution(capability, options)
	if err != nil {
		return nil, err
	}
	run, err := r.start(ctx, post("triggers").safe().json(TriggerRequest{Event: event, Execution: body}), capability, options)
	if err != nil {
		return nil, err
	}
	return run.own(ctx, options, run.result)
}

// Run is one execution of a capability. A run that was read from JSON has no registry: its methods need
// one from [Registry.GetRun].
type Run struct {
	RunRecord
	registry *Registry
}

func (r *Registry) runOf(ctx context.Context, q request) (*Run, error) {
	run := &Run{registry: r}
	if err := r.call(ctx, q, &run.RunRecord); err != nil {
		return nil, err
	}
	return run, nil
}

// GetRun returns a run.
func (r *Registry) GetRun(ctx context.Context, id string) (*Run, error) {
	return r.runOf(ctx, get("executions", id))
}

// RunFilter selects runs. The zero value selects all.
type RunFilter struct {
	Status RunStatus
	Name   string
	// Tenant is the principal to whom the runs belong. Only administrators may give it.
	Tenant string
	// Limit is the largest number of runs in one response; the iterator fetches as many as it needs.
	Limit int
}

// ListRuns returns the runs, newest first.
func (r *Registry) ListRuns(ctx context.Context, filter *RunFilter) iter.Seq2[*Run, error] {
	if filter == nil {
		filter = &RunFilter{}
	}
	q := get("executions").with("status", string(filter.Status)).with("name", filter.Name).
		with("tenant", filter.Tenant).limited(filter.Limit)
	return pages(ctx, r, q, "before", func(page *ExecutionList) ([]*Run, string) {
		runs := make([]*Run, len(page.Executions))
		for i, record := range page.Executions {
			runs[i] = &Run{record, r}
		}
		return runs, page.Next
	})
}

// CancelRun cancels a run. It ends when its requests have ended.
func (r *Registry) CancelRun(ctx context.Context, id string) (*Run, error) {
	return r.runOf(ctx, post("executions", id, "cancel"))
}

// ResumeOptions are the optional settings of a resume.
type ResumeOptions struct {
	// Step is the path of the step, where several wait.
	Step string
	// Outputs are the outputs of the step, with [StepResolutionSet].
	Outputs Values
}

// ResumeRun continues a run that waits, with the decision of a person about the request whose effect is
// not known.
func (r *Registry) ResumeRun(ctx context.Context, id string, decision StepResolution, options *ResumeOptions) (*Run, error) {
	body := ResumeRequest{Decision: decision}
	if options != nil {
		body.Step, body.Outputs = options.Step, options.Outputs
	}
	return r.runOf(ctx, post("executions", id, "resume").json(body))
}

// DeleteRun deletes a finished run with its events.
func (r *Registry) DeleteRun(ctx context.Context, id string) error {
	return r.call(ctx, del("executions", id), nil)
}

// ReplayRun repeats the steps of a run with the recorded responses, and reports the differences. With a
// target, it takes the steps of that version.
func (r *Registry) ReplayRun(ctx context.Context, id string, against *ReplayTarget) (*ReplayResponse, error) {
	return fetch[ReplayResponse](ctx, r, post("executions", id, "replay").json(ReplayRequest{Against: against}))
}

// ListExchanges returns the recorded requests and responses of a run, by step. Secret values are masked.
func (r *Registry) ListExchanges(ctx context.Context, id string) ([]StepExchange, error) {
	list, err := fetch[ExchangeList](ctx, r, get("executions", id, "exchanges"))
	if err != nil {
		return nil, err
	}
	return list.Exchanges, nil
}

// Events returns the events of a run after the one with this number, as they happen, until the run has
// ended or waits. A lost connection is opened again, without a gap and without a repetition.
func (r *Registry) Events(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return r.events(ctx, get("executions", id, "events"), after)
}

func (r *Registry) events(ctx context.Context, q request, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := r.follow(ctx, q, after, func(m message) (bool, error) {
			event, err := ParseEvent([]byte(m.data))
			if err != nil {
				return false, err
			}
			if !yield(event, nil) {
				return false, errStopped
			}
			return m.event != "run_finished" && m.event != "run_waiting", nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// errStopped says that the caller of an iterator wants no more.
var errStopped = errors.New("stopped")

// ParseEvent reads an event of a run, as the events of a stream or a journal have it. An event of a type
// that this SDK does not know is an [UnknownEvent].
func ParseEvent(text []byte) (Event, error) {
	var event Event
	err := unmarshal(text, &event)
	if err == nil && event == nil {
		err = errors.New("an event that is null")
	}
	return event, err
}

// isAtRest reports whether the run has ended or waits for a person.
func (run *Run) isAtRest() bool {
	return run.Status != RunStatusQueued && run.Status != RunStatusRunning
}

// patiently marks a request of a caller who waits for a run: a restart of A2S is no reason to give up.
func (q request) patiently() request {
	q.patient = true
	return q
}

// result returns the run when it is at rest, or the error of its end.
func (run *Run) result(ctx context.Context) error {
	var last int64
	for !run.isAtRest() {
		events := get("executions", run.ID, "events").patiently()
		for event, err := range run.registry.events(ctx, events, last) {
			if err != nil {
				return err
			}
			last = event.Base().Seq
		}
		if err := run.read(ctx, true); err != nil {
			return err
		}
		if !run.isAtRest() {
			if err := run.registry.retry.Sleep(ctx, run.registry.retry.Pause); err != nil {
				return err
			}
		}
	}
	return endError(run)
}

// own does work that waits for a run which this caller has started.
func (run *Run) own(ctx context.Context, options *RunOptions, work func(context.Context) error) (*Run, error) {
	err := work(ctx)
	if err == nil {
		return run, nil
	}
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		var base *A2SError
		if errors.As(err, &base) && base.Run == nil {
			base.Run = run
		}
		return nil, err
	}
	end := "and goes on"
	if options == nil || options.OnAbort == AbortCancel {
		end = "and is cancelled"
		// The run may have ended; and A2S may be away, then the error has the id of the run.
		_ = run.Cancel(context.WithoutCancel(ctx))
	}
	return nil, &Interrupted{&A2SError{
		Message: fmt.Sprintf("the run %s was not waited for, %s", run.ID, end),
		Hint:    "Read the run later by its id.",
		Run:     run,
		cause:   ctx.Err(),
	}}
}

// Wait waits until the run has ended or waits for a person, and returns it, or the error of its end. If
// it is at rest already, nothing is sent. When the context ends, the run goes on.
func (run *Run) Wait(ctx context.Context) (*Run, error) {
	return run.own(ctx, &RunOptions{OnAbort: AbortDetach}, run.result)
}

// waitForApproval reads the run until it does not wait for the approvals that it waits for now.
func (run *Run) waitForApproval(ctx context.Context) error {
	known := map[string]bool{}
	for _, approval := range run.Approvals() {
		known[approval.ID] = true
	}
	for {
		if err := run.read(ctx, true); err != nil {
			return err
		}
		if run.Status != RunStatusWaiting {
			return run.result(ctx)
		}
		err := endError(run)
		var needs *NeedsApproval
		isKnown := func(approval RunApproval) bool { return known[approval.ID] }
		if !errors.As(err, &needs) || slices.ContainsFunc(needs.Approvals, func(a RunApproval) bool { return !isKnown(a) }) {
			return err
		}
		if err := run.registry.retry.Sleep(ctx, run.registry.retry.ApprovalPause); err != nil {
			return err
		}
	}
}

// Events returns all events of the run, as they happen, until it has ended or waits.
func (run *Run) Events(ctx context.Context) iter.Seq2[Event, error] {
	return run.registry.Events(ctx, run.ID, 0)
}

// Refresh reads the run again.
func (run *Run) Refresh(ctx context.Context) error { return run.read(ctx, false) }

func (run *Run) read(ctx context.Context, patient bool) error {
	var record RunRecord
	q := get("executions", run.ID)
	q.patient = patient
	if err := run.registry.call(ctx, q, &record); err != nil {
		return err
	}
	run.RunRecord = record
	return nil
}

// Cancel cancels the run, and updates it.
func (run *Run) Cancel(ctx context.Context) error {
	return run.replace(run.registry.CancelRun(ctx, run.ID))
}

// Resume continues the run like [Registry.ResumeRun], and updates it.
func (run *Run) Resume(ctx context.Context, decision StepResolution, options *ResumeOptions) (*Run, error) {
	if err := run.replace(run.registry.ResumeRun(ctx, run.ID, decision, options)); err != nil {
		return nil, err
	}
	return run, nil
}

func (run *Run) replace(now *Run, err error) error {
	if err == nil {
		run.RunRecord = now.RunRecord
	}
	return err
}

// Approvals returns the approvals that the run waits for, as they were when the run was read.
func (run *Run) Approvals() []RunApproval { return run.RunRecord.Approvals }

// DecodeOutput reads the output of the run into a value, like [json.Unmarshal].
func (run *Run) DecodeOutput(into any) error {
	if run.Output == nil {
		return errors.New("the run has no output")
	}
	return json.Unmarshal(run.Output, into)
}

// CapabilityExecutor runs capabilities, with the remembered values of a [StateStore].
type CapabilityExecutor struct {
	registry *Registry
	session  string
}

// NewCapabilityExecutor returns an executor. The store may be nil.
func NewCapabilityExecutor(registry *Registry, store *StateStore) *CapabilityExecutor {
	executor := &CapabilityExecutor{registry: registry}
	if store != nil {
		executor.session = store.session
	}
	return executor
}

// Run is [Registry.Run] in the session of the store, unless the options name another.
func (e *CapabilityExecutor) Run(ctx context.Context, capability Capability, options *RunOptions) (*Run, error) {
	var own RunOptions
	if options != nil {
		own = *options
	}
	if own.Session == "" {
		own.Session = e.session
	}
	return e.registry.Run(ctx, capability, &own)
}

// ExecuteCapabilityTasks is Run, under its name in the text of A2S.
func (e *CapabilityExecutor) ExecuteCapabilityTasks(ctx context.Context, capability Capability, options *RunOptions) (*Run, error) {
	return e.Run(ctx, capability, options)
}
