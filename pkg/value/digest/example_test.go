package digest_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Bytes that are not the wanted ones end in an error in place of io.EOF, so a
// reader cannot use them by mistake.
func ExampleNewVerifyingReader() {
	want, err := digest.Parse("sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := io.ReadAll(digest.NewVerifyingReader(strings.NewReader("hello"), want, 5))
	fmt.Println(string(body), err)
	_, err = io.ReadAll(digest.NewVerifyingReader(strings.NewReader("jello"), want, 5))
	fmt.Println("other bytes are refused:", err != nil)
	// Output:
	// hello <nil>
	// other bytes are refused: true
}
