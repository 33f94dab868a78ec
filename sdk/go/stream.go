package a2s

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
)

// maxEvent is the largest size of an event of a stream, in bytes.
const maxEvent = 1 << 20

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

// openStream opens a stream of server-sent events. It is nil when A2S has no event left.
func (r *Registry) openStream(ctx context.Context, q request) (*http.Response, error) {
	q.unlimited = true
	q = q.headed("Accept", "text/event-stream")
	var stream *http.Response
	err := r.try(ctx, q, func(ctx context.Context) error {
		opened, err := r.open(ctx, q)
		if err != nil {
			return err
		}
		if opened.StatusCode == http.StatusOK {
			stream = opened
			return nil
		}
		refused, err := readResponse(opened)
		if err != nil {
			return err
		}
		return refused.problem()
	})
	return stream, err
}

// follow reads a stream until it ends in order or receive wants no more, and opens it again after the
// last message where the connection was lost. It returns the error of receive.
func (r *Registry) follow(ctx context.Context, q request, after int64, receive func(message) (goOn bool, err error)) error {
	for idle := 1; ; idle++ {
		last := after
		err := r.readStream(ctx, q.resumed(after), func(m message) (bool, error) {
			seq, err := strconv.ParseInt(m.id, 10, 64)
			if err != nil {
				return false, &A2SError{Message: "a message of the stream has no number", cause: err}
			}
			if seq <= after {
				return true, nil // it was received before
			}
			after = seq
			return receive(m)
		})
		var cut *lost
		if !errors.As(err, &cut) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if after > last {
			idle = 1
		}
		if idle >= r.retry.Attempts {
			return final(cut)
		}
		if err := r.retry.Sleep(ctx, r.retry.afterAttempt(idle)); err != nil {
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

// readStream opens a stream, and reads it until it ends in order or receive wants no more. It returns
// the error of receive, or a [lost] connection.
func (r *Registry) readStream(ctx context.Context, q request, receive func(message) (goOn bool, err error)) error {
	stream, err := r.openStream(ctx, q)
	if err != nil || stream == nil {
		return err
	}
	defer stream.Body.Close()
	for m, err := range messages(stream.Body) {
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
