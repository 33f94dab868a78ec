// Package strictjson reads JSON by the rules that a checksum needs. Two readers of the same text must
// see the same value, so it refuses whatever readers understand differently: a name that occurs twice
// in an object, half of a surrogate pair, bytes that are not UTF-8, and numbers that no double can hold.
package strictjson

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MaxDepth is the largest number of levels of a value. A scalar has one.
	MaxDepth = 256
	// MaxValues is the largest number of values in a text. A text of a few megabytes can contain
	// millions of values, and each needs more memory than its text.
	MaxValues = 2_000_000
)

// Kind is the type of a value.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// Value is a parsed JSON value.
type Value struct {
	// Raw is the text of the value, without white space around it.
	Raw string
	// Members are the members of an object, or the items of an array, which have no name.
	Members []Member
	// Kind is the type of the value.
	Kind Kind
}

// Member is a value with its name.
type Member struct {
	Name  string
	Value Value
}

// SyntaxError is the error of a text that is not accepted.
type SyntaxError struct {
	// Offset is the position in the text, in bytes.
	Offset int
	// Reason says what is wrong there.
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Reason)
}

// Parse reads a text that is exactly one JSON value. It skips one byte order mark at the beginning.
func Parse(text string) (Value, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	p := parser{text: text}
	value, err := p.value(1)
	if err != nil {
		return Value{}, err
	}
	if p.skipSpace(); p.at < len(text) {
		return Value{}, p.fail("text after the value")
	}
	return value, nil
}

// Member returns the member of an object with this name.
func (v Value) Member(name string) (Value, bool) {
	if v.Kind == Object {
		for i := range v.Members {
			if v.Members[i].Name == name {
				return v.Members[i].Value, true
			}
		}
	}
	return Value{}, false
}

// Text returns the content of a string. The value must be one.
func (v Value) Text() string {
	p := parser{text: v.Raw}
	text, err := p.str()
	if err != nil {
		panic(err) // the text was parsed before
	}
	return text
}

// Float returns the double nearest to a number. The value must be one.
func (v Value) Float() float64 {
	number, err := strconv.ParseFloat(v.Raw, 64)
	if err != nil {
		panic(err) // the text was parsed before
	}
	return number
}

type parser struct {
	text   string
	at     int
	values int
}

func (p *parser) fail(reason string) error {
	return &SyntaxError{Offset: p.at, Reason: reason}
}

// peek returns the next byte, or 0 at the end. A byte 0 is not allowed outside of strings anyway.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) skipSpace() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (Value, error) {
	p.skipSpace()
	if depth > MaxDepth {
		return Value{}, p.fail("more than " + strconv.Itoa(MaxDepth) + " levels")
	}
	if p.values++; p.values > MaxValues {
		return Value{}, p.fail("more than " + strconv.Itoa(MaxValues) + " values")
	}
	start := p.at
	var v Value
	var err error
	switch c := p.peek(); {
	case c == '{':
		v.Kind = Object
		v.Members, err = p.members('}', depth, p.name)
		if err == nil {
			err = p.refuseDuplicates(v.Members)
		}
	case c == '[':
		v.Kind = Array
		v.Members, err = p.members(']', depth, func() (string, error) { return "", nil })
	case c == '"':
		v.Kind = String
		_, err = p.str()
	case c == '-' || '0' <= c && c <= '9':
		v.Kind = Number
		err = p.number()
	case c == 't':
		v.Kind = Bool
		err = p.word("true")
	case c == 'f':
		v.Kind = Bool
		err = p.word("false")
	case c == 'n':
		err = p.word("null")
	default:
		err = p.fail("no value")
	}
	if err != nil {
		return Value{}, err
	}
	v.Raw = p.text[start:p.at]
	return v, nil
}

func (p *parser) word(word string) error {
	if len(p.text)-p.at < len(word) || p.text[p.at:p.at+len(word)] != word {
		return p.fail("no value")
	}
	p.at += len(word)
	return nil
}

// members reads what stands between the brackets of an object or an array.
func (p *parser) members(end byte, depth int, name func() (string, error)) ([]Member, error) {
	p.at++
	members := []Member{}
	if p.skipSpace(); p.peek() == end {
		p.at++
		return members, nil
	}
	for {
		key, err := name()
		if err != nil {
			return nil, err
		}
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		members = append(members, Member{key, value})
		p.skipSpace()
		switch p.peek() {
		case ',':
			p.at++
		case end:
			p.at++
			return members, nil
		default:
			return nil, p.fail("no `,` or `" + string(end) + "`")
		}
	}
}

func (p *parser) name() (string, error) {
	if p.skipSpace(); p.peek() != '"' {
		return "", p.fail("no name of a member")
	}
	name, err := p.str()
	if err != nil {
		return "", err
	}
	if p.skipSpace(); p.peek() != ':' {
		return "", p.fail("no `:` after the name of a member")
	}
	p.at++
	return name, nil
}

func (p *parser) refuseDuplicates(members []Member) error {
	const few = 8 // fewer are compared faster than hashed
	if len(members) <= few {
		for i := range members {
			for j := range i {
				if members[i].Name == members[j].Name {
					return p.duplicate(members[i].Name)
				}
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, len(members))
	for i := range members {
		if _, found := seen[members[i].Name]; found {
			return p.duplicate(members[i].Name)
		}
		seen[members[i].Name] = struct{}{}
	}
	return nil
}

func (p *parser) duplicate(name string) error {
	return p.fail("an object that has the member " + quoteShort(name) + " twice")
}

// quoteShort returns the name as it can stand in a message.
func quoteShort(name string) string {
	const most = 64
	if len(name) > most {
		name = name[:most] + "…"
	}
	return strconv.Quote(name)
}

// str reads a string, and returns its content.
func (p *parser) str() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			text := p.text[start:p.at]
			p.at++
			return text, nil
		case c == '\\':
			return p.escaped([]byte(p.text[start:p.at]))
		case c < ' ':
			return "", p.fail("a control character in a string")
		default:
			if err := p.char(); err != nil {
				return "", err
			}
		}
	}
	return "", p.fail("a string without an end")
}

// escaped reads the rest of a string that has an escape.
func (p *parser) escaped(content []byte) (string, error) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return string(content), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			content = utf8.AppendRune(content, r)
		case c < ' ':
			return "", p.fail("a control character in a string")
		default:
			start := p.at
			if err := p.char(); err != nil {
				return "", err
			}
			content = append(content, p.text[start:p.at]...)
		}
	}
	return "", p.fail("a string without an end")
}

// char skips one character.
func (p *parser) char() error {
	if p.text[p.at] < utf8.RuneSelf {
		p.at++
		return nil
	}
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	if r == utf8.RuneError && size == 1 {
		return p.fail("bytes that are not UTF-8")
	}
	p.at += size
	return nil
}

var escapes = map[byte]rune{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

func (p *parser) escape() (rune, error) {
	p.at++
	c := p.peek()
	if c != 'u' {
		r, found := escapes[c]
		if !found {
			return 0, p.fail("an unknown escape")
		}
		p.at++
		return r, nil
	}
	first, err := p.unit()
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	if p.peek() == '\\' && p.at+1 < len(p.text) && p.text[p.at+1] == 'u' {
		p.at++
		second, err := p.unit()
		if err != nil {
			return 0, err
		}
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r, nil
		}
	}
	return 0, p.fail("half of a surrogate pair")
}

// unit reads the `uXXXX` of an escape.
func (p *parser) unit() (rune, error) {
	p.at++
	if len(p.text)-p.at < 4 {
		return 0, p.fail("an escape without four digits")
	}
	var unit rune
	for range 4 {
		c := p.text[p.at]
		switch {
		case '0' <= c && c <= '9':
			unit = unit<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			unit = unit<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			unit = unit<<4 | rune(c-'A'+10)
		default:
			return 0, p.fail("an escape without four digits")
		}
		p.at++
	}
	return unit, nil
}

// number reads a number by the grammar of RFC 8259, which is narrower than that of strconv.
func (p *parser) number() error {
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else if err := p.digits(); err != nil {
		return err
	}
	if p.peek() == '.' {
		p.at++
		if err := p.digits(); err != nil {
			return err
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		if err := p.digits(); err != nil {
			return err
		}
	}
	value, err := strconv.ParseFloat(p.text[start:p.at], 64)
	if errors.Is(err, strconv.ErrRange) || math.IsInf(value, 0) {
		p.at = start
		return p.fail("a number beyond the range of doubles")
	}
	return err
}

func (p *parser) digits() error {
	start := p.at
	for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
		p.at++
	}
	if p.at == start {
		return p.fail("a number without digits")
	}
	return nil
}
