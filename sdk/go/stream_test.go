package a2s

import (
	"io"
	"reflect"
	"strings"
	"testing"
)

// chunks is a stream that arrives in parts.
type chunks struct {
	text []byte
	size int
}

func (c *chunks) Read(into []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(into, c.text[:min(c.size, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

func readMessages(t *testing.T, stream io.Reader) []message {
	t.Helper()
	var list []message
	for m, err := range messages(stream) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

func TestMessages(t *testing.T) {
	text := "\ufeff: a comment\n\nid: 1\nevent: a\ndata: x\ndata:  y\nretry: 5\n\n" +
		"data\n\nevent: nothing\n\nid:2\r\ndata:z\r\n\r\nid: 3\ndata: without an end"
	want := []message{{"1", "a", "x\n y"}, {"", "", ""}, {"2", "", "z"}}
	for size := 1; size < len(text); size += 3 {
		got := readMessages(t, &chunks{[]byte(text), size})
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q", got)
		}
	}
	if got := readMessages(t, strings.NewReader("data: "+strings.Repeat("x", 1<<19)+"\n\n")); len(got[0].data) != 1<<19 {
		t.Errorf("a message has %d bytes", len(got[0].data))
	}
}
