package a2s

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/a2s/core/internal/strictjson"
)

// members are the members of a JSON object that the fields of its type do not show: those that this SDK
// does not know, and those that equal the zero value of their field. Marshalling writes them again, so
// that an object leaves as it came: a null stays a null, and what was absent stays absent.
type members struct {
	kept []strictjson.Member
}

// absent marks a member that the API requires and the text did not have.
var absent = strictjson.Value{}

func (m *members) keep(name string, value strictjson.Value) {
	m.kept = append(m.kept, strictjson.Member{Name: name, Value: value})
}

// find returns the text of a kept member, which is empty if the member is marked as absent.
func (m *members) find(name string) (string, bool) {
	for i := range m.kept {
		if m.kept[i].Name == name {
			return m.kept[i].Value.Raw, true
		}
	}
	return "", false
}

// union is a type of the API with several cases.
type union struct {
	property string
	variants map[string]reflect.Type
	unknown  reflect.Type
}

// tagged is a case of a union.
type tagged interface {
	discriminator() (property, value string)
}

// field is a field of a struct with the member that it stands for.
type field struct {
	name     string
	index    []int
	required bool
}

// shape is what the codec needs to know about a struct.
type shape struct {
	fields  []field
	byName  map[string]int
	members []int // the index of the embedded members
}

var shapes sync.Map // of reflect.Type to *shape

// shapeOf returns the shape of a struct of the API, or nil for any other type.
func shapeOf(t reflect.Type) *shape {
	if known, found := shapes.Load(t); found {
		return known.(*shape)
	}
	var s *shape
	if embedded, found := t.FieldByName("members"); found && embedded.Type == reflect.TypeFor[members]() {
		s = &shape{byName: map[string]int{}, members: embedded.Index}
		for _, f := range reflect.VisibleFields(t) {
			if tag := f.Tag.Get("json"); tag != "" {
				name, option, _ := strings.Cut(tag, ",")
				s.byName[name] = len(s.fields)
				s.fields = append(s.fields, field{name, f.Index, option == ""})
			}
		}
	}
	shapes.Store(t, s)
	return s
}

// unmarshal reads a JSON text into a value of the API.
func unmarshal(text []byte, into any) error {
	value, err := strictjson.Parse(string(text))
	if err != nil {
		return err
	}
	return decodeInto(value, into)
}

// decodeInto reads a parsed value into a value of the API.
func decodeInto(value strictjson.Value, into any) error {
	if err := decode(value, reflect.ValueOf(into).Elem()); err != nil {
		return fmt.Errorf("unexpected JSON: %w", err)
	}
	return nil
}

var (
	typeRaw         = reflect.TypeFor[json.RawMessage]()
	typeStrategy    = reflect.TypeFor[Strategy]()
	typeUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

func decode(value strictjson.Value, into reflect.Value) error {
	t := into.Type()
	if t == typeRaw {
		into.SetBytes([]byte(value.Raw))
		return nil
	}
	if value.Kind == strictjson.Null {
		into.SetZero()
		return nil
	}
	if u, found := unions[t]; found {
		return u.decode(value, into)
	}
	if t.Kind() == reflect.Struct {
		if s := shapeOf(t); s != nil {
			return s.decode(value, into)
		}
	}
	if t == typeStrategy {
		strategy, err := parseStrategy(value)
		if err == nil {
			into.Set(reflect.ValueOf(strategy))
		}
		return err
	}
	if t.Kind() != reflect.Map && reflect.PointerTo(t).Implements(typeUnmarshaler) {
		return into.Addr().Interface().(json.Unmarshaler).UnmarshalJSON([]byte(value.Raw))
	}
	switch t.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(t.Elem()))
		return decode(value, into.Elem())
	case reflect.Slice:
		return decodeSlice(value, into)
	case reflect.Map:
		return decodeMap(value, into)
	case reflect.Interface:
		into.Set(reflect.ValueOf(freeValue(value)))
		return nil
	default:
		return decodeScalar(value, into)
	}
}

func decodeScalar(value strictjson.Value, into reflect.Value) error {
	switch into.Kind() {
	case reflect.String:
		if value.Kind == strictjson.String {
			into.SetString(value.Text())
			return nil
		}
	case reflect.Bool:
		if value.Kind == strictjson.Bool {
			into.SetBool(value.Raw == "true")
			return nil
		}
	case reflect.Int, reflect.Int64:
		if value.Kind == strictjson.Number {
			number, err := strconv.ParseInt(value.Raw, 10, 64)
			if err == nil {
				into.SetInt(number)
			}
			return err
		}
	case reflect.Float64:
		if value.Kind == strictjson.Number {
			into.SetFloat(value.Float())
			return nil
		}
	default:
	}
	return errors.New("a value that is not a " + into.Type().String())
}

func decodeSlice(value strictjson.Value, into reflect.Value) error {
	if value.Kind != strictjson.Array {
		return errors.New("a value that is not a list")
	}
	into.Set(reflect.MakeSlice(into.Type(), len(value.Members), len(value.Members)))
	for i := range value.Members {
		if err := decodeItem(value.Members[i].Value, into.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

// decodeItem reads an item of a list or a map. A null is refused unless the Go type has one: unlike a
// member of an object, an item has no place to keep it.
func decodeItem(value strictjson.Value, into reflect.Value) error {
	if value.Kind == strictjson.Null && into.Type() != typeRaw {
		switch into.Kind() {
		case reflect.Pointer, reflect.Interface:
		default:
			return errors.New("a null that is not a " + into.Type().String())
		}
	}
	return decode(value, into)
}

func decodeMap(value strictjson.Value, into reflect.Value) error {
	if value.Kind != strictjson.Object {
		return errors.New("a value that is not an object")
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(value.Members)))
	for i := range value.Members {
		item := reflect.New(into.Type().Elem()).Elem()
		if err := decodeItem(value.Members[i].Value, item); err != nil {
			return fmt.Errorf("%s: %w", value.Members[i].Name, err)
		}
		into.SetMapIndex(reflect.ValueOf(value.Members[i].Name), item)
	}
	return nil
}

func (s *shape) decode(value strictjson.Value, into reflect.Value) error {
	if value.Kind != strictjson.Object {
		return errors.New("a value that is not an object")
	}
	into.SetZero()
	property := ""
	if variant, ok := into.Addr().Interface().(tagged); ok {
		property, _ = variant.discriminator()
	}
	rest := into.FieldByIndex(s.members).Addr()
	kept := (*members)(rest.UnsafePointer())
	found := make([]bool, len(s.fields))
	for i := range value.Members {
		name, member := value.Members[i].Name, value.Members[i].Value
		if name == property {
			continue
		}
		at, known := s.byName[name]
		if !known {
			kept.keep(name, member)
			continue
		}
		found[at] = true
		target := into.FieldByIndex(s.fields[at].index)
		if err := decode(member, target); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if target.IsZero() {
			kept.keep(name, member)
		}
	}
	for i := range s.fields {
		if s.fields[i].required && !found[i] {
			kept.keep(s.fields[i].name, absent)
		}
	}
	return nil
}

func (u union) decode(value strictjson.Value, into reflect.Value) error {
	tag, found := value.Member(u.property)
	if !found || tag.Kind != strictjson.String {
		return fmt.Errorf("an object without `%s`", u.property)
	}
	t, known := u.variants[tag.Text()]
	if !known {
		if u.unknown == nil {
			return fmt.Errorf("an unknown `%s`", u.property)
		}
		t = u.unknown
	}
	variant := reflect.New(t)
	if err := shapeOf(t).decode(value, variant.Elem()); err != nil {
		return err
	}
	if unknown, ok := variant.Interface().(interface{ setTag(string) }); ok {
		unknown.setTag(tag.Text())
	}
	into.Set(variant)
	return nil
}

// freeValue returns the value as Go types. A number is a [json.Number], which keeps all digits.
func freeValue(value strictjson.Value) any {
	switch value.Kind {
	case strictjson.Bool:
		return value.Raw == "true"
	case strictjson.Number:
		return json.Number(value.Raw)
	case strictjson.String:
		return value.Text()
	case strictjson.Array:
		list := make([]any, len(value.Members))
		for i := range value.Members {
			list[i] = freeValue(value.Members[i].Value)
		}
		return list
	case strictjson.Object:
		object := make(map[string]any, len(value.Members))
		for i := range value.Members {
			object[value.Members[i].Name] = freeValue(value.Members[i].Value)
		}
		return object
	default:
		return nil
	}
}

// marshal writes a value as JSON, without the escapes for HTML that encoding/json adds.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	if err := encode(&out, reflect.ValueOf(value)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func encode(out *bytes.Buffer, value reflect.Value) error {
	if !value.IsValid() {
		out.WriteString("null")
		return nil
	}
	t := value.Type()
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			out.WriteString("null")
			return nil
		}
		return encode(out, value.Elem())
	case reflect.Struct:
		if s := shapeOf(t); s != nil {
			return s.encode(out, value)
		}
	case reflect.Slice:
		if t != typeRaw && t.Elem().Kind() != reflect.Uint8 && !value.IsNil() {
			return encodeSlice(out, value)
		}
	default:
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value.Interface()); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the line break of the encoder
	return nil
}

func encodeSlice(out *bytes.Buffer, value reflect.Value) error {
	out.WriteByte('[')
	for i := range value.Len() {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := encode(out, value.Index(i)); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return nil
}

func (s *shape) encode(out *bytes.Buffer, value reflect.Value) error {
	if !value.CanAddr() {
		addressable := reflect.New(value.Type()).Elem()
		addressable.Set(value)
		value = addressable
	}
	kept := (*members)(value.FieldByIndex(s.members).Addr().UnsafePointer())
	first := true
	member := func(name string) {
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.Write(strictjson.AppendQuoted(nil, name))
		out.WriteByte(':')
	}
	out.WriteByte('{')
	if variant, ok := value.Addr().Interface().(tagged); ok {
		property, tag := variant.discriminator()
		member(property)
		out.Write(strictjson.AppendQuoted(nil, tag))
	}
	for i := range s.fields {
		f := &s.fields[i]
		content := value.FieldByIndex(f.index)
		if content.IsZero() {
			if raw, found := kept.find(f.name); found {
				if raw != "" {
					member(f.name)
					out.WriteString(raw)
				}
				continue
			}
			if !f.required {
				continue
			}
		}
		member(f.name)
		if f.required && content.Kind() == reflect.Slice && content.IsNil() && content.Type() != typeRaw {
			out.WriteString("[]")
			continue
		}
		if err := encode(out, content); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for i := range kept.kept {
		if name := kept.kept[i].Name; !s.knows(name) {
			member(name)
			out.WriteString(kept.kept[i].Value.Raw)
		}
	}
	out.WriteByte('}')
	return nil
}

func (s *shape) knows(name string) bool {
	_, found := s.byName[name]
	return found
}
