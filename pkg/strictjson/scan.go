package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// scanner walks one document beside the shape of its target. It follows the
// grammar of RFC 8259 and recurses no deeper than its limit.
type scanner struct {
	limits limits
	open   bool // keys without a field are passed over

	data []byte
	pos  int
	seen int // values so far
}

// check runs s over all of data.
func check(data []byte, s *scanner, target *shape) error {
	if int64(len(data)) > s.limits.size {
		return &Error{Code: CodeSize, Offset: s.limits.size,
			Message: fmt.Sprintf("%d bytes where at most %d are allowed", len(data), s.limits.size)}
	}
	if err := checkEncoding(data); err != nil {
		return err
	}
	s.data = data
	s.space()
	if err := s.value(target, 0); err != nil {
		return err
	}
	s.space()
	if s.pos < len(s.data) {
		return s.fail(CodeTrailing, "something follows the end of the value")
	}
	return nil
}

// checkEncoding looks at the text before its grammar. It returns error, not
// *Error, so that nil stays nil.
func checkEncoding(data []byte) error {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return &Error{Code: CodeEncoding, Message: "a byte order mark at the start"}
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return &Error{Code: CodeEncoding, Offset: int64(i), Message: "a NUL byte"}
	}
	if utf8.Valid(data) {
		return nil
	}
	i := 0
	for i < len(data) {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return &Error{Code: CodeEncoding, Offset: int64(i), Message: "invalid UTF-8"}
}

// fail makes an error about the current position.
func (s *scanner) fail(code, message string) *Error { return s.failAt(s.pos, code, message) }

func (s *scanner) failAt(pos int, code, message string) *Error {
	return &Error{Code: code, Offset: int64(pos), Message: message}
}

// unexpected makes the error for a byte that the grammar has no place for.
func (s *scanner) unexpected(want string) *Error {
	if s.pos >= len(s.data) {
		return s.fail(CodeSyntax, "unexpected end where "+want+" should be")
	}
	_, n := utf8.DecodeRune(s.data[s.pos:])
	return s.fail(CodeSyntax, fmt.Sprintf("unexpected %q where %s should be", s.data[s.pos:s.pos+n], want))
}

// peek returns the current byte; 0, which no document contains, at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// take steps over c if it is the current byte.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// value scans one value that sits inside depth arrays and objects.
func (s *scanner) value(sh *shape, depth int) *Error {
	if s.seen++; s.limits.values > 0 && s.seen > s.limits.values {
		return s.fail(CodeValues, fmt.Sprintf("more than %d values", s.limits.values))
	}
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if depth >= s.limits.depth {
			return s.fail(CodeDepth, fmt.Sprintf("nested more than %d levels deep", s.limits.depth))
		}
		if c == '{' {
			return s.object(sh, depth+1)
		}
		return s.array(sh, depth+1)
	case c == '"':
		return s.str()
	case c == '-' || c >= '0' && c <= '9':
		return s.number(sh)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
			s.pos += len(word)
			return nil
		}
	}
	return s.unexpected("a value")
}

func (s *scanner) array(sh *shape, depth int) *Error {
	start, n := s.pos, 0
	s.pos++
	s.space()
	for !s.take(']') {
		if n > 0 {
			if !s.take(',') {
				return s.unexpected("a comma or the end of the array")
			}
			s.space()
		}
		if err := s.value(sh.elem, depth); err != nil {
			return err.within(fmt.Sprintf("[%d]", n))
		}
		n++
		s.space()
	}
	// encoding/json would drop elements or fill up with zeros.
	if want, fixed := sh.length(); fixed && n != want {
		return s.failAt(start, CodeType, fmt.Sprintf("%d elements where %d belong", n, want))
	}
	return nil
}

func (s *scanner) object(sh *shape, depth int) *Error {
	var seen keySet
	s.pos++
	s.space()
	for first := true; !s.take('}'); first = false {
		if !first {
			if !s.take(',') {
				return s.unexpected("a comma or the end of the object")
			}
			s.space()
		}
		start := s.pos
		key, err := s.key()
		if err != nil {
			return err
		}
		if !seen.add(key) {
			return s.failAt(start, CodeDupKey, "key "+quote(string(key), maxForeign)+" appears twice")
		}
		member, err := s.member(sh, key, start)
		if err != nil {
			return err
		}
		if err := s.value(member, depth); err != nil {
			return err.within(keyPlace(key))
		}
		s.space()
	}
	return nil
}

// key scans a key and the colon, and returns the key unescaped.
func (s *scanner) key() ([]byte, *Error) {
	if s.peek() != '"' {
		return nil, s.unexpected("a key")
	}
	start := s.pos
	if err := s.str(); err != nil {
		return nil, err
	}
	raw := s.data[start:s.pos]
	s.space()
	if !s.take(':') {
		return nil, s.unexpected("a colon")
	}
	s.space()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	var key string
	if err := json.Unmarshal(raw, &key); err != nil {
		return nil, s.failAt(start, CodeSyntax, "a key that cannot be unescaped")
	}
	return []byte(key), nil
}

// member finds the shape of the value under key, and refuses keys the target
// has no place for.
func (s *scanner) member(sh *shape, key []byte, start int) (*shape, *Error) {
	if sh.fields == nil {
		if !sh.integerKeys || shortestInteger(string(key)) {
			return sh.elem, nil
		}
		return nil, s.failAt(start, CodeNumber, "key "+quote(string(key), maxForeign)+" is not an integer written the shortest way")
	}
	if field, known := sh.fields[string(key)]; known {
		return field, nil
	}
	if twin := sh.fold(string(key)); twin != "" {
		return nil, s.failAt(start, CodeUnknownField,
			"unknown field "+quote(string(key), maxForeign)+", which is "+quote(twin, maxForeign)+" in other letters")
	}
	if !s.open {
		return nil, s.failAt(start, CodeUnknownField, "unknown field "+quote(string(key), maxForeign))
	}
	return sh.elem, nil
}

// keySet remembers the keys of one object. Most objects are small, for which
// comparing is cheaper than hashing; a large one must not take quadratic time.
type keySet struct {
	few  [16][]byte
	n    int                 // how many of few are in use
	many map[string]struct{} // all keys, once few is full
}

// add reports whether key is new.
func (k *keySet) add(key []byte) bool {
	if k.many != nil {
		before := len(k.many)
		k.many[string(key)] = struct{}{}
		return len(k.many) > before
	}
	for _, old := range k.few[:k.n] {
		if bytes.Equal(old, key) {
			return false
		}
	}
	if k.n < len(k.few) {
		k.few[k.n] = key
		k.n++
		return true
	}
	k.many = map[string]struct{}{string(key): {}}
	for _, old := range k.few {
		k.many[string(old)] = struct{}{}
	}
	return true
}
