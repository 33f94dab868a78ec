package a2s

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Code is the stable code of an error, such as A2S378. It is an error itself, so that a program can ask
// errors.Is(err, a2s.Code("A2S378")).
type Code string

func (c Code) Error() string { return string(c) }

// A2SError is the base of all errors that A2S reports, and of those of the connection to it. The types
// below embed it: errors.As finds both the type and the base.
type A2SError struct {
	// Code is the stable code. It is empty if A2S did not answer, or not as a version that this SDK knows.
	Code Code
	// Message says what happened.
	Message string
	// Cause is the responsible party, if the error is the end of a run.
	Cause FaultAttribution
	// Next is the kind of the next action, if the error is the end of a run.
	Next NextAction
	// Hint says what to do, for people.
	Hint string
	// Status is the status of the HTTP response. At the end of a run, it is the status of the response of
	// the service. It is 0 without a response.
	Status int
	// Run is the run, if the error is its end.
	Run *Run
	// Problem is the body of the response, if A2S described the error.
	Problem *Problem

	cause      error
	retryAfter time.Duration
}

func (e *A2SError) Error() string {
	var text strings.Builder
	text.WriteString("a2s: ")
	if e.Code != "" {
		text.WriteString(string(e.Code) + ": ")
	}
	if e.Hint == "" {
		text.WriteString(e.Message)
	} else {
		text.WriteString(strings.TrimRight(e.Message, ".") + ". " + e.Hint)
	}
	return text.String()
}

// Unwrap returns the error of the connection, if that is the cause.
func (e *A2SError) Unwrap() error { return e.cause }

// Is reports whether the target is the code of the error.
func (e *A2SError) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code != "" && code == e.Code
}

// Denied is the error when the guardian, or a person, said no.
type Denied struct{ *A2SError }

// NeedsApproval is the error when a run waits for a person.
type NeedsApproval struct {
	*A2SError
	// Approvals are the approvals that the run waits for.
	Approvals []RunApproval
}

// Interrupted is the error when the context of the caller ended before the run. Run is the run, which is
// cancelled or goes on, as OnAbort says; Unwrap leads to the error of the context.
type Interrupted struct{ *A2SError }

// MissingInput is the error when a required input has no value.
type MissingInput struct {
	*A2SError
	// Missing are the inputs with their schemas.
	Missing []InputField
}

// InvalidInput is the error when a value is not accepted.
type InvalidInput struct{ *A2SError }

// Drifted is the error when a run would differ from its plan, or when a version has other content than
// before.
type Drifted struct {
	*A2SError
	// Differences are the differences from the plan, in words.
	Differences []string
}

// ChecksumMismatch is the error when a document does not have the expected checksum. It is a [Drifted].
type ChecksumMismatch struct {
	*Drifted
	// Expected is the checksum that the document should have.
	Expected string
	// Computed is the checksum that it has.
	Computed string
}

// OutcomeUnknown is the error when a run waits because the effect of a request is not known.
type OutcomeUnknown struct{ *A2SError }

// NotReachable is the error when A2S, or a service, does not answer. If the connection failed, Unwrap
// leads to its error.
type NotReachable struct{ *A2SError }

// InvalidDocument is the error when a document has errors.
type InvalidDocument struct {
	*A2SError
	// Diagnostics are all errors of the document.
	Diagnostics []Diagnostic
}

// Unauthorized is the error when the token is missing or unknown, or lacks a scope.
type Unauthorized struct{ *A2SError }

// NotFound is the error when an object does not exist, or belongs to another principal.
type NotFound struct{ *A2SError }

// Conflict is the error when a request does not fit the present state.
type Conflict struct{ *A2SError }

// Busy is the error when a limit is reached, and was still reached at the last try.
type Busy struct {
	*A2SError
	// RetryAfter is how long to wait, as A2S said. It is 0 if A2S did not say.
	RetryAfter time.Duration
}

// RunFailed is the error when a run failed in a way that no other type names, or was cancelled.
type RunFailed struct{ *A2SError }

// Unwrap returns the base, for errors.As. The other types have the same method.
func (e *Denied) Unwrap() error           { return e.A2SError }
func (e *NeedsApproval) Unwrap() error    { return e.A2SError }
func (e *Interrupted) Unwrap() error      { return e.A2SError }
func (e *MissingInput) Unwrap() error     { return e.A2SError }
func (e *InvalidInput) Unwrap() error     { return e.A2SError }
func (e *Drifted) Unwrap() error          { return e.A2SError }
func (e *ChecksumMismatch) Unwrap() error { return e.Drifted }
func (e *OutcomeUnknown) Unwrap() error   { return e.A2SError }
func (e *NotReachable) Unwrap() error     { return e.A2SError }
func (e *InvalidDocument) Unwrap() error  { return e.A2SError }
func (e *Unauthorized) Unwrap() error     { return e.A2SError }
func (e *NotFound) Unwrap() error         { return e.A2SError }
func (e *Conflict) Unwrap() error         { return e.A2SError }
func (e *Busy) Unwrap() error             { return e.A2SError }
func (e *RunFailed) Unwrap() error        { return e.A2SError }

// Wait waits until a person has decided about these approvals and the run is at rest again, and returns it,
// or the error of its end; that is a [NeedsApproval] when the run waits for a further approval.
func (e *NeedsApproval) Wait(ctx context.Context) (*Run, error) {
	return e.Run.own(ctx, &RunOptions{OnAbort: AbortDetach}, e.Run.waitForApproval)
}

// Resume continues the run with the decision of a person about the request whose effect is not known.
func (e *OutcomeUnknown) Resume(ctx context.Context, decision StepResolution, options *ResumeOptions) (*Run, error) {
	return e.Run.Resume(ctx, decision, options)
}

// classes makes the error of each class.
var classes = map[string]func(base *A2SError) error{
	"A2SError":       func(base *A2SError) error { return base },
	"Denied":         func(base *A2SError) error { return &Denied{base} },
	"InvalidInput":   func(base *A2SError) error { return &InvalidInput{base} },
	"OutcomeUnknown": func(base *A2SError) error { return &OutcomeUnknown{base} },
	"NotReachable":   func(base *A2SError) error { return &NotReachable{base} },
	"Unauthorized":   func(base *A2SError) error { return &Unauthorized{base} },
	"NotFound":       func(base *A2SError) error { return &NotFound{base} },
	"Conflict":       func(base *A2SError) error { return &Conflict{base} },
	"Busy":           func(base *A2SError) error { return &Busy{base, base.retryAfter} },
	"RunFailed":      func(base *A2SError) error { return &RunFailed{base} },
	"NeedsApproval": func(base *A2SError) error {
		e := &NeedsApproval{A2SError: base}
		if base.Run != nil {
			e.Approvals = base.Run.Approvals()
		}
		return e
	},
	"MissingInput": func(base *A2SError) error {
		e := &MissingInput{A2SError: base}
		if base.Problem != nil {
			e.Missing = base.Problem.Missing
		}
		return e
	},
	"Drifted": func(base *A2SError) error {
		e := &Drifted{A2SError: base}
		if base.Problem != nil {
			e.Differences = base.Problem.Differences
		}
		return e
	},
	"InvalidDocument": func(base *A2SError) error {
		e := &InvalidDocument{A2SError: base}
		if base.Problem != nil {
			e.Diagnostics = base.Problem.Diagnostics
		}
		return e
	},
}

// newError returns the error of the class that the code has in the table, or else of another class.
func newError(base *A2SError, otherwise string) error {
	class, found := errorClasses[base.Code]
	if !found {
		class = otherwise
	}
	return classes[class](base)
}

// classOfStatus returns the class of a response whose code has none.
func classOfStatus(status int, hasDiagnostics bool) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "Unauthorized"
	case http.StatusNotFound, http.StatusGone:
		return "NotFound"
	case http.StatusConflict:
		return "Conflict"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "Busy"
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return "NotReachable"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		if hasDiagnostics {
			return "InvalidDocument"
		}
		return "InvalidInput"
	default:
		return "A2SError"
	}
}

// problemError returns the error of a response.
func problemError(response *response) error {
	base := &A2SError{
		Status:     response.status,
		Message:    fmt.Sprintf("the response has the status %d", response.status),
		retryAfter: response.retryAfter(),
	}
	var problem Problem
	if err := unmarshal(response.body, &problem); err == nil && problem.Code != "" {
		base.Problem = &problem
		base.Code = Code(problem.Code)
		base.Message = problem.Detail
		base.Hint = problem.Hint
	}
	return newError(base, classOfStatus(response.status, len(problem.Diagnostics) > 0))
}

// connectionError returns the error of a request without a response.
func connectionError(message string, cause error) error {
	return &NotReachable{&A2SError{Message: message + ": " + cause.Error(), cause: cause}}
}

// endError returns the error of a run that is at rest, or nil if it succeeded.
func endError(run *Run) error {
	if run.Status == RunStatusSucceeded {
		return nil
	}
	base := &A2SError{Run: run, Message: "the run is " + string(run.Status)}
	if e := run.Error; e != nil {
		base.Code = Code(e.Code)
		base.Message = e.Message
		base.Hint = e.Hint
		base.Cause = e.Cause
		base.Next = e.Next
		if e.Status != nil {
			base.Status = *e.Status
		}
	}
	if run.Status == RunStatusDenied {
		return newError(base, "Denied")
	}
	return newError(base, "RunFailed")
}
