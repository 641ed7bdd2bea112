package exception_test

import (
	"fmt"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// An exception is about one finding of one artifact, at one destination, under
// one policy, for a time. The policy's officer signs it.
func Example() {
	artifact := intoto.Subject{Name: "bin/linux/amd64/hello", Digests: digest.SetOf([]byte("hello"))}
	issued := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := exception.Predicate{
		Code: verdict.NoSBOM, Reason: "the scanner is broken, see issue 12", Destination: "https://dl.example.test/hello/",
		Policy: digest.Of(digest.SHA256, []byte("the policy")), Issued: issued, Expires: issued.AddDate(0, 0, 7),
	}
	s, err := exception.New(artifact, p)
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := exception.Parse(s)
	fmt.Println(x.Code, x.Artifact.Name, x.Expires.Format(time.DateOnly), err)

	p.Expires = issued.AddDate(1, 0, 0)
	_, err = exception.New(artifact, p)
	fmt.Println("a whole year is refused:", err != nil)
	// Output:
	// NO_SBOM bin/linux/amd64/hello 2026-03-08 <nil>
	// a whole year is refused: true
}
