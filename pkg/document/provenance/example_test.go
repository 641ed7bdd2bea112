package provenance_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Read reads the provenance of any builder into one form.
func ExampleRead() {
	s, err := intoto.New(provenance.PredicateType, []intoto.Subject{{Name: "hello", Digests: digest.SetOf([]byte("hello"))}}, map[string]any{
		"buildDefinition": map[string]any{
			"buildType":          "https://example.test/make/v1",
			"externalParameters": map[string]any{"target": "hello"},
			"resolvedDependencies": []any{map[string]any{
				"uri": "git+https://example.test/hello@refs/tags/v1.2.3", "digest": map[string]string{"gitCommit": "1f2e000000000000000000000000000000000000"},
			}},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": "https://example.test/builder"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	claim, err := provenance.Read(s)
	fmt.Println(claim.Builder.ID, claim.Source.Repository, claim.Source.Ref, err)
	for _, p := range claim.Parameters {
		fmt.Println(p.Name, string(p.Value))
	}
	// Output:
	// https://example.test/builder git+https://example.test/hello refs/tags/v1.2.3 <nil>
	// target "hello"
}
