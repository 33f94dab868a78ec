package strictjson

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// AppendCanonical appends the form of RFC 8785 of a value.
func AppendCanonical(out []byte, v Value) []byte {
	switch v.Kind {
	case Number:
		return appendNumber(out, v.Float())
	case String:
		return AppendQuoted(out, v.Text())
	case Array:
		out = append(out, '[')
		for i := range v.Members {
			if i > 0 {
				out = append(out, ',')
			}
			out = AppendCanonical(out, v.Members[i].Value)
		}
		return append(out, ']')
	case Object:
		sorted := slices.Clone(v.Members)
		slices.SortFunc(sorted, func(a, b Member) int { return compareUTF16(a.Name, b.Name) })
		out = append(out, '{')
		for i := range sorted {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(AppendQuoted(out, sorted[i].Name), ':')
			out = AppendCanonical(out, sorted[i].Value)
		}
		return append(out, '}')
	default:
		return append(out, v.Raw...)
	}
}

// appendNumber writes a number like Number::toString of ECMAScript.
func appendNumber(out []byte, f float64) []byte {
	if f == 0 {
		return append(out, '0') // also for -0
	}
	if magnitude := math.Abs(f); 1e-6 <= magnitude && magnitude < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64)
	}
	out = strconv.AppendFloat(out, f, 'e', -1, 64)
	// strconv writes at least two digits of the exponent: 1e-07.
	if n := len(out); out[n-2] == '0' && (out[n-3] == '-' || out[n-3] == '+') {
		out[n-2] = out[n-1]
		out = out[:n-1]
	}
	return out
}

// AppendQuoted appends a string with the escapes of RFC 8785. The text must be valid UTF-8.
func AppendQuoted(out []byte, text string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\':
			out = append(out, '\\', c)
		case c >= ' ':
			out = append(out, c)
		case c == '\b':
			out = append(out, `\b`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\f':
			out = append(out, `\f`...)
		case c == '\r':
			out = append(out, `\r`...)
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(out, '"')
}

// compareUTF16 compares two texts as sequences of UTF-16 code units. Their order differs from that of
// UTF-8 only between surrogates, which stand for characters from U+10000 on, and U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return len(a) - len(b)
	}
	// The texts differ within a character if its first byte is common: go back to its beginning.
	for i > 0 && !utf8.RuneStart(a[i]) {
		i--
	}
	x, _ := utf8.DecodeRuneInString(a[i:])
	y, _ := utf8.DecodeRuneInString(b[i:])
	const astral = 0x10000
	if (x >= astral) != (y >= astral) {
		// The first unit of a pair is 0xD800 to 0xDBFF.
		if x >= astral {
			x = 0xD800
		} else {
			y = 0xD800
		}
	}
	return int(x) - int(y)
}
