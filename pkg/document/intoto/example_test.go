package intoto_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// A statement that was parsed is not verified: package verify says who signed it.
func ExampleParse() {
	raw := []byte(`{"_type": "https://in-toto.io/Statement/v1",
		"subject": [{"name": "hello", "digest": {"sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}}],
		"predicateType": "https://example.test/scan/v1", "predicate": {"clean": true}}`)
	s, err := intoto.Parse(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.PredicateType(), string(s.Predicate()))
	fmt.Println("is about hello:", s.Names("hello", digest.SetOf([]byte("hello"))))
	fmt.Println("is about other bytes:", s.Names("hello", digest.SetOf([]byte("jello"))))
	// Output:
	// https://example.test/scan/v1 {"clean": true}
	// is about hello: true
	// is about other bytes: false
}
