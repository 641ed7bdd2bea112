package strictjson

import (
	"reflect"
	"strconv"
)

// value reads one value with the shape of its target. If the shape is open,
// keys without a field are ignored.
func (s *Scanner[T]) value(sh *shape, open bool) {
	switch c := s.Peek(); c {
	case '{':
		s.object(sh, open)
	case '[':
		s.array(sh, open)
	case '"':
		s.text(false)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		s.number(sh)
	default:
		if !s.word("true") && !s.word("false") && !s.word("null") {
			s.unexpected("a value")
		}
	}
}

func (s *Scanner[T]) array(sh *shape, open bool) {
	start, n := s.pos, 0
	s.Open('[')
	for ; s.Next(n == 0, ']'); n++ {
		if s.value(sh.elem, open); s.err != nil {
			_ = s.err.within("[" + strconv.Itoa(n) + "]") // the same error, with its path
			return
		}
	}
	// encoding/json would drop elements or fill up with zeros
	if sh.kind == reflect.Array && n != sh.size {
		s.FailAt(start, CodeType, "%d elements, want %d", n, sh.size)
	}
}

func (s *Scanner[T]) object(sh *shape, open bool) {
	var seen keySet[T]
	s.Open('{')
	for first := true; s.Next(first, '}'); first = false {
		start := s.pos
		key := s.Key()
		if s.err == nil && !seen.add(key) {
			s.FailAt(start, CodeDupKey, "key %s appears twice", quote(string(key), maxForeign))
		}
		if s.err != nil {
			return
		}
		member := s.member(sh, open, key, start)
		if s.err != nil {
			return
		}
		if s.value(member, open); s.err != nil {
			_ = s.err.within(keyPlace(key)) // the same error, with its path
			return
		}
	}
}

// member finds the shape of the value under key, and refuses keys that the
// target does not have.
func (s *Scanner[T]) member(sh *shape, open bool, key T, start int) *shape {
	if sh.fields == nil {
		if sh.integerKeys && !shortestInteger(string(key)) {
			s.FailAt(start, CodeNumber, "key %s is not an integer in canonical form", quote(string(key), maxForeign))
		}
		return sh.elem
	}
	if field, known := sh.fields[string(key)]; known {
		return field
	}
	switch twin := sh.fold(string(key)); {
	case twin != "":
		s.FailAt(start, CodeUnknownField, "unknown field %s, did you mean %s", quote(string(key), maxForeign), quote(twin, maxForeign))
	case !open:
		s.FailAt(start, CodeUnknownField, "unknown field %s", quote(string(key), maxForeign))
	}
	return sh.elem
}

// keySet stores the keys of one object. Most objects are small, for which
// comparing is cheaper than hashing; a large one must not take quadratic time.
type keySet[T Text] struct {
	few  [16]T
	n    int                 // how many of few are in use
	many map[string]struct{} // all keys, once few is full
}

// add reports whether key is new.
func (k *keySet[T]) add(key T) bool {
	if k.many != nil {
		before := len(k.many)
		k.many[string(key)] = struct{}{}
		return len(k.many) > before
	}
	for _, old := range k.few[:k.n] {
		if string(old) == string(key) {
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
