package a2s

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
)

// TestErrorClasses checks that each class is found by errors.As, together with the base.
func TestErrorClasses(t *testing.T) {
	for name, class := range classes {
		err := fmt.Errorf("wrapped: %w", class(&A2SError{Code: "A2S999", Message: "m", Hint: "Do it."}))
		var base *A2SError
		if !errors.As(err, &base) || base.Message != "m" {
			t.Errorf("%s has no base", name)
		}
		if !errors.Is(err, Code("A2S999")) || errors.Is(err, Code("A2S998")) || errors.Is(err, Code("")) {
			t.Errorf("%s does not compare codes", name)
		}
		if got := reflect.TypeOf(errors.Unwrap(err)).Elem().Name(); got != name {
			t.Errorf("%s makes a %s", name, got)
		}
		if got := errors.Unwrap(err).Error(); got != "a2s: A2S999: m. Do it." {
			t.Errorf("the text is %q", got)
		}
	}
	var drifted *Drifted
	if !errors.As(error(&ChecksumMismatch{Drifted: &Drifted{A2SError: &A2SError{}}}), &drifted) {
		t.Error("a ChecksumMismatch is not a Drifted")
	}
}

// TestErrorTable checks that the table of codes names classes that exist.
func TestErrorTable(t *testing.T) {
	for code, class := range errorClasses {
		if classes[class] == nil {
			t.Errorf("%s has the unknown class %s", code, class)
		}
	}
}

func TestClassOfStatus(t *testing.T) {
	for status, want := range map[int]string{
		400: "InvalidInput", 401: "Unauthorized", 403: "Unauthorized", 404: "NotFound", 406: "A2SError",
		409: "Conflict", 410: "NotFound", 413: "InvalidInput", 415: "InvalidInput", 422: "InvalidInput",
		429: "Busy", 500: "A2SError", 502: "NotReachable", 503: "Busy", 504: "NotReachable",
	} {
		if got := classOfStatus(status, false); got != want {
			t.Errorf("%d: %s", status, got)
		}
	}
	if got := classOfStatus(422, true); got != "InvalidDocument" {
		t.Errorf("422 with diagnostics: %s", got)
	}
}
