package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// renamed types have another name in Go: the package has a type of its own with the name of the API.
var renamed = map[string]string{
	"Run": "RunRecord",
}

// handWritten types exist in the package. They are unions without a discriminator, or of a kind for
// which Go has a better form.
var handWritten = map[string]string{
	"Strategy":          "Strategy",
	"SingleStrategy":    "Strategy",
	"Values":            "Values",
	"OwnerUpdate":       "",
	"AnySearchResponse": "",
}

// types are the Go types that the routes need.
type types struct {
	schemas   map[string]*schema
	needed    map[string]bool // the names, and whether a response contains them
	variantOf map[string]*variant
}

// variant is one case of a union.
type variant struct {
	union, property, value string
	shared                 []string // the properties that all variants have
}

func newTypes(schemas map[string]*schema) *types {
	t := &types{schemas, map[string]bool{}, map[string]*variant{}}
	for name, s := range schemas {
		if s.Discriminator == nil {
			continue
		}
		shared := t.sharedProperties(s)
		for value, ref := range s.Discriminator.Mapping {
			target := strings.TrimPrefix(ref, refPrefix)
			t.variantOf[target] = &variant{name, s.Discriminator.PropertyName, value, shared}
		}
	}
	return t
}

// sharedProperties returns the names of the properties that all variants of a union have.
func (t *types) sharedProperties(union *schema) []string {
	var shared []string
	for _, candidate := range t.schemas[union.OneOf[0].target()].Properties {
		everywhere := candidate.name != union.Discriminator.PropertyName
		for _, variant := range union.OneOf {
			has := func(p property) bool { return p.name == candidate.name }
			everywhere = everywhere && slices.ContainsFunc(t.schemas[variant.target()].Properties, has)
		}
		if everywhere {
			shared = append(shared, candidate.name)
		}
	}
	return shared
}

// addPath notes the schemas that the parameters, the requests and the responses of a path contain.
func (t *types) addPath(item json.RawMessage) error {
	var operations map[string]struct {
		Parameters  []struct{ Schema *schema }
		RequestBody struct{ Content content }
		Responses   map[string]struct{ Content content }
	}
	if err := json.Unmarshal(item, &operations); err != nil {
		return err
	}
	for _, operation := range operations {
		for _, parameter := range operation.Parameters {
			t.reach(parameter.Schema, false)
		}
		operation.RequestBody.Content.reach(t, false)
		for _, response := range operation.Responses {
			response.Content.reach(t, true)
		}
	}
	return nil
}

type content map[string]struct{ Schema *schema }

func (c content) reach(t *types, inResponse bool) {
	for _, media := range c {
		t.reach(media.Schema, inResponse)
	}
}

// reach notes a schema and all schemas that it contains.
func (t *types) reach(s *schema, inResponse bool) {
	if s == nil {
		return
	}
	if name := s.target(); s.Ref != "" {
		known, found := t.needed[name]
		if found && (known || !inResponse) {
			return
		}
		t.needed[name] = inResponse
		t.reach(t.schemas[name], inResponse)
		return
	}
	t.reach(s.Items, inResponse)
	t.reach(s.AdditionalProperties.schema, inResponse)
	for _, property := range s.Properties {
		t.reach(property.schema, inResponse)
	}
	for _, part := range slices.Concat(s.OneOf, s.AllOf) {
		t.reach(part, inResponse)
	}
}

// source returns the Go source of all types.
func (t *types) source() string {
	var body strings.Builder
	var unions strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.needed)) {
		if _, found := handWritten[name]; found {
			continue
		}
		switch s := t.schemas[name]; {
		case s.Discriminator != nil:
			t.writeUnion(&body, &unions, name, s)
		case len(s.Enum) > 0:
			writeEnum(&body, name, s)
		case t.isStruct(s):
			t.writeStruct(&body, name, s)
		}
	}
	return header + "import (\n\"encoding/json\"\n\"reflect\"\n)\n\n" + body.String() +
		"// unions has the variants of each union by the value of its discriminator.\n" +
		"var unions = map[reflect.Type]union{\n" + unions.String() + "}\n"
}

func (t *types) isStruct(s *schema) bool {
	return len(s.Properties) > 0 || len(s.AllOf) > 0
}

func writeEnum(out *strings.Builder, name string, s *schema) {
	writeComment(out, goName(name), s.Description)
	fmt.Fprintf(out, "type %s string\n\n", goName(name))
	fmt.Fprintf(out, "// The values of [%s].\nconst (\n", goName(name))
	for _, value := range s.Enum {
		fmt.Fprintf(out, "%s%s %s = %q\n", goName(name), goName(value), goName(name), value)
	}
	out.WriteString(")\n\n")
}

func (t *types) writeUnion(out, unions *strings.Builder, name string, s *schema) {
	property := s.Discriminator.PropertyName
	method := goName(property)
	shared := t.sharedProperties(s)
	writeComment(out, goName(name), s.Description)
	out.WriteString("//\n// It is one of the types")
	values := slices.Sorted(maps.Keys(s.Discriminator.Mapping))
	for i, value := range values {
		separator := ","
		if i == 0 {
			separator = ""
		}
		fmt.Fprintf(out, "%s\n// *[%s]", separator, goName(strings.TrimPrefix(s.Discriminator.Mapping[value], refPrefix)))
	}
	inResponse := t.needed[name]
	unknown := "Unknown" + goName(name)
	if inResponse {
		fmt.Fprintf(out, ",\n// and *[%s] for what a newer A2S sends", unknown)
	}
	fmt.Fprintf(out, ".\ntype %s interface {\n", goName(name))
	fmt.Fprintf(out, "// %s returns the value of the member `%s`.\n%s() string\n", method, property, method)
	if len(shared) > 0 {
		fmt.Fprintf(out, "// Base returns the members that each %s has.\nBase() *%sBase\n", goName(name), goName(name))
	}
	fmt.Fprintf(out, "is%s()\n}\n\n", goName(name))

	if len(shared) > 0 {
		base := goName(name) + "Base"
		first := t.schemas[s.OneOf[0].target()]
		fmt.Fprintf(out, "// %s has the members that each [%s] has.\ntype %s struct {\n", base, goName(name), base)
		for _, property := range first.Properties {
			if slices.Contains(shared, property.name) {
				t.writeField(out, property, slices.Contains(first.Required, property.name))
			}
		}
		fmt.Fprintf(out, "}\n\n// Base returns the members that each [%s] has.\n", goName(name))
		fmt.Fprintf(out, "func (b *%s) Base() *%s { return b }\n\n", base, base)
	}
	if inResponse {
		fmt.Fprintf(out, "// %s is a case of [%s] that this version of the SDK does not know.\n", unknown, goName(name))
		fmt.Fprintf(out, "// Marshalling keeps all members.\ntype %s struct {\n", unknown)
		if len(shared) > 0 {
			fmt.Fprintf(out, "%sBase\n", goName(name))
		}
		fmt.Fprintf(out, "tag string\nmembers\n}\n\n")
		fmt.Fprintf(out, "func (*%s) is%s() {}\n\n", unknown, goName(name))
		fmt.Fprintf(out, "func (v *%s) setTag(tag string) { v.tag = tag }\n\n", unknown)
		writeVariantMethods(out, unknown, method, property, "v.tag")
		writeJSONMethods(out, unknown)
	}
	fmt.Fprintf(unions, "reflect.TypeFor[%s](): {\nproperty: %q,\nvariants: map[string]reflect.Type{\n", goName(name), property)
	for _, value := range values {
		target := strings.TrimPrefix(s.Discriminator.Mapping[value], refPrefix)
		fmt.Fprintf(unions, "%q: reflect.TypeFor[%s](),\n", value, goName(target))
	}
	unions.WriteString("},\n")
	if inResponse {
		fmt.Fprintf(unions, "unknown: reflect.TypeFor[%s](),\n", unknown)
	}
	unions.WriteString("},\n")
}

func writeVariantMethods(out *strings.Builder, name, method, property, value string) {
	fmt.Fprintf(out, "// %s returns the value of the member `%s`.\n", method, property)
	fmt.Fprintf(out, "func (v *%s) %s() string { return %s }\n\n", name, method, value)
	fmt.Fprintf(out, "func (v *%s) discriminator() (string, string) { return %q, v.%s() }\n\n", name, property, method)
}

func writeJSONMethods(out *strings.Builder, name string) {
	fmt.Fprintf(out, "// MarshalJSON writes the members, also those that this SDK does not know.\n")
	fmt.Fprintf(out, "func (v %s) MarshalJSON() ([]byte, error) { return marshal(&v) }\n\n", name)
	fmt.Fprintf(out, "// UnmarshalJSON reads the members, and keeps those that this SDK does not know.\n")
	fmt.Fprintf(out, "func (v *%s) UnmarshalJSON(text []byte) error { return unmarshal(text, v) }\n\n", name)
}

func (t *types) writeStruct(out *strings.Builder, name string, s *schema) {
	writeComment(out, goName(name), s.Description)
	fmt.Fprintf(out, "type %s struct {\n", goName(name))
	variant := t.variantOf[name]
	var skipped []string
	if variant != nil {
		if len(variant.shared) > 0 {
			fmt.Fprintf(out, "%sBase\n", goName(variant.union))
		}
		skipped = append(slices.Clone(variant.shared), variant.property)
	}
	t.writeFields(out, s, skipped)
	out.WriteString("members\n}\n\n")
	if variant != nil {
		fmt.Fprintf(out, "func (*%s) is%s() {}\n\n", goName(name), goName(variant.union))
		writeVariantMethods(out, goName(name), goName(variant.property), variant.property, fmt.Sprintf("%q", variant.value))
	}
	writeJSONMethods(out, goName(name))
}

// writeFields writes the fields of a schema, and of all its parts.
func (t *types) writeFields(out *strings.Builder, s *schema, skipped []string) {
	for _, part := range s.AllOf {
		if part.Ref != "" {
			part = t.schemas[part.target()]
		}
		t.writeFields(out, part, skipped)
	}
	for _, property := range s.Properties {
		if !slices.Contains(skipped, property.name) {
			t.writeField(out, property, slices.Contains(s.Required, property.name))
		}
	}
}

func (t *types) writeField(out *strings.Builder, p property, required bool) {
	if description := strings.TrimSpace(p.schema.Description); description != "" {
		for _, line := range strings.Split(description, "\n") {
			fmt.Fprintf(out, "// %s\n", line)
		}
	}
	option := ",omitzero"
	if required {
		option = ""
	}
	fmt.Fprintf(out, "%s %s `json:\"%s%s\"`\n", goName(p.name), t.goType(p.schema, required), p.name, option)
}

// goType returns the Go type of a property. Where null or absence differs from the zero value of the
// type, it is a pointer.
func (t *types) goType(s *schema, required bool) string {
	s, nullable := s.nullable()
	optional := nullable || !required
	pointer := func(when bool, name string) string {
		if when {
			return "*" + name
		}
		return name
	}
	if s.Ref != "" {
		name := s.target()
		if goType := handWritten[name]; goType != "" {
			return goType
		}
		referred := t.schemas[name]
		switch {
		case referred.Discriminator != nil, len(referred.Enum) > 0:
			return goName(name)
		case t.isStruct(referred):
			if renamed := renamed[name]; renamed != "" {
				name = renamed
			}
			return pointer(optional, goName(name))
		default:
			return t.goType(referred, required)
		}
	}
	switch {
	case s.is("string") && s.Format == "date-time":
		return pointer(optional, "Time")
	case s.is("string"):
		return "string"
	case s.is("boolean"):
		return pointer(nullable, "bool")
	case s.is("integer") && s.Format == "int64":
		return pointer(nullable, "int64")
	case s.is("integer"):
		return pointer(nullable, "int")
	case s.is("number"):
		return pointer(nullable, "float64")
	case s.is("array"):
		return "[]" + t.itemType(s.Items)
	case s.is("object") && s.AdditionalProperties.schema != nil && !s.AdditionalProperties.isFree():
		return "map[string]" + t.itemType(s.AdditionalProperties.schema)
	case s.is("object"):
		return "Values"
	case s.isFree():
		return "json.RawMessage"
	}
	panic(fmt.Sprintf("no Go type for %+v", s))
}

// itemType returns the Go type of the items of a list or a map. Only a pointer can be null there.
func (t *types) itemType(s *schema) string {
	s, nullable := s.nullable()
	if nullable {
		return "*" + t.goType(s, true)
	}
	return t.goType(s, true)
}

// writeComment writes the comment of a type. Comments of Go begin with the name.
func writeComment(out *strings.Builder, name, description string) {
	description = strings.TrimSpace(description)
	if description == "" {
		fmt.Fprintf(out, "// %s is a part of the API.\n", name)
		return
	}
	first := []rune(description)
	if len(first) > 1 && !unicode.IsUpper(first[1]) {
		first[0] = unicode.ToLower(first[0])
	}
	text := name + ": " + string(first)
	for _, line := range strings.Split(text, "\n") {
		fmt.Fprintf(out, "// %s\n", line)
	}
}

// initialisms are written in capitals in Go.
var initialisms = map[string]string{
	"api": "API", "aos": "AOS", "http": "HTTP", "id": "ID", "io": "IO", "mcp": "MCP",
	"ms": "MS", "oauth2": "OAuth2", "openapi": "OpenAPI", "url": "URL",
}

// goName returns the name in the notation of Go: `expires_at`, `expiresAt` and `ExpiresAt` are ExpiresAt.
func goName(name string) string {
	if other, found := renamed[name]; found {
		name = other
	}
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, string(word))
			word = nil
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case r == '_' || r == '-':
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	var out strings.Builder
	for _, word := range words {
		if capitals, found := initialisms[strings.ToLower(word)]; found {
			out.WriteString(capitals)
			continue
		}
		runes := []rune(word)
		runes[0] = unicode.ToUpper(runes[0])
		out.WriteString(string(runes))
	}
	return out.String()
}
