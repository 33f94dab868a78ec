package a2s

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxEvent is the largest size of an event of a stream, in bytes: that of a response, as the last event of
// a run has its output.
const maxEvent = maxResponse

// message is one server-sent event.
type message struct {
	id, event, data string
}

// errEventTooLarge is the error of a stream whose event has no end.
var errEventTooLarge = fmt.Errorf("an event of the stream is larger than %d bytes", maxEvent)

// messages reads server-sent events. It ends without an error where the stream ends; what stands after
// the last empty line is not an event.
func messages(stream io.Reader) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		lines := bufio.NewReaderSize(stream, 64<<10)
		var next message
		var data []string
		size := 0
		for first := true; ; first = false {
			line, err := readLine(lines)
			if errors.Is(err, io.EOF) {
				return
			}
			if size += len(line); err == nil && size > maxEvent {
				err = errEventTooLarge
			}
			if err != nil {
				yield(message{}, err)
				return
			}
			if first {
				line = strings.TrimPrefix(line, "\ufeff")
			}
			if line == "" {
				if next.data = strings.Join(data, "\n"); len(data) > 0 && !yield(next, nil) {
					return
				}
				next = message{}
				data, size = nil, 0
				continue
			}
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "id":
				next.id = value
			case "event":
				next.event = value
			case "data":
				data = append(data, value)
			}
		}
	}
}

// readLine reads a line without its end, which is a line feed with or without a carriage return.
func readLine(lines *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxEvent {
			return "", errEventTooLarge
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return "", err
		}
		text := strings.TrimSuffix(string(line), "\n")
		return strings.TrimSuffix(text, "\r"), nil
	}
}

// errSilent is the error of a stream without a byte for so long that its connection must be lost.
var errSilent = errors.New("nothing came for a long time")

// watched is the body of a stream whose silence is limited.
type watched struct {
	io.ReadCloser
	timer *time.Timer
	limit time.Duration
	quiet context.Context
	end   context.CancelCauseFunc
}

func (w *watched) Read(into []byte) (int, error) {
	n, err := w.ReadCloser.Read(into)
	if err == nil {
		w.timer.Reset(w.limit)
	} else if context.Cause(w.quiet) == errSilent {
		err = errSilent
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	defer w.end(nil)
	return w.ReadCloser.Close()
}

// openStream opens a stream of server-sent events, once. The error is errNoEvents when A2S
// has no event left.
func (r *Registry) openStream(ctx context.Context, q request) (io.ReadCloser, error) {
	q = q.headed("Accept", "text/event-stream")
	quiet, silence := context.WithCancelCause(ctx)
	timer := time.AfterFunc(r.retry.IdleTimeout, func() { silence(errSilent) })
	opened, err := r.open(quiet, q)
	if err != nil {
		timer.Stop()
		if context.Cause(quiet) == errSilent {
			err = &lost{errSilent}
		}
		silence(nil)
		return nil, err
	}
	if opened.StatusCode == http.StatusNoContent {
		timer.Stop()
		opened.Body.Close()
		silence(nil)
		return nil, errNoEvents
	}
	if opened.StatusCode != http.StatusOK {
		defer silence(nil)
		defer timer.Stop()
		refused, err := readResponse(opened)
		if err != nil {
			return nil, err
		}
		return nil, refused.problem()
	}
	body := &watched{opened.Body, timer, r.retry.IdleTimeout, quiet, silence}
	if kind := opened.Header.Get("Content-Type"); kind != "" && !strings.HasPrefix(kind, "text/event-stream") {
		body.Close()
		return nil, &A2SError{Status: opened.StatusCode, Message: "the response is not a stream of events"}
	}
	return body, nil
}

// follow reads the numbered messages of a stream until receive wants no more, and opens it again after the
// last message where the connection was lost. It returns the error of receive.
func (r *Registry) follow(ctx context.Context, q request, after int64, receive func(message) (goOn bool, err error)) error {
	if err := cmp.Or(q.failed, r.failed); err != nil {
		return err
	}
	tries := tries{retry: r.retry, repeatable: true, patient: q.patient}
	for {
		ended := false
		err := r.readStream(ctx, q.resumed(after), func(m message) (bool, error) {
			seq, err := strconv.ParseInt(m.id, 10, 64)
			if err != nil || seq < 1 {
				return false, &A2SError{Message: "an event of the stream has no number", cause: err}
			}
			if seq <= after {
				return true, nil // it was received before
			}
			after = seq
			tries.noteProgress()
			goOn, err := receive(m)
			ended = !goOn
			return goOn, err
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case errors.Is(err, errNoEvents) || err == nil && ended:
			return nil
		case err == nil:
			// A proxy may report a lost connection as an orderly end.
			err = &lost{errors.New("the stream has ended too early")}
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

// resumed asks for what follows a message of a stream.
func (q request) resumed(after int64) request {
	if after > 0 {
		return q.headed("Last-Event-ID", strconv.FormatInt(after, 10))
	}
	return q
}

// errNoEvents says that a stream has no event left.
var errNoEvents = errors.New("no event is left")

// readStream opens a stream, and reads it until it ends in order or receive wants no more. It returns
// the error of receive, or a [lost] connection.
func (r *Registry) readStream(ctx context.Context, q request, receive func(message) (goOn bool, err error)) error {
	stream, err := r.openStream(ctx, q)
	if err != nil {
		return err
	}
	defer stream.Close()
	return receiveMessages(stream, receive)
}

func receiveMessages(stream io.Reader, receive func(message) (goOn bool, err error)) error {
	for m, err := range messages(stream) {
		if errors.Is(err, errEventTooLarge) {
			return &A2SError{Message: err.Error(), cause: err}
		}
		if err != nil {
			return &lost{err}
		}
		if goOn, err := receive(m); err != nil || !goOn {
			return err
		}
	}
	return nil
}
