package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/test/scene"
)

// TestPromotionKeepsSignatures: what cosign 3 verifies where an image comes
// from, it verifies where waybill promoted it to. A copy of its own leaves the
// signatures behind, because it does not ask what refers to the image; the day
// it does, this test says so.
func TestPromotionKeepsSignatures(t *testing.T) {
	bin := peers(t)
	s := setScene(t)
	if r := s.Stage(t.Context()); r.Code != 0 {
		t.Fatalf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	cosign := openCosign(t, s, filepath.Join(bin, "cosign3"))
	staged := look(t, place{s.Lab.Registry + "/staging/lantern", "lantern"}, ":"+scene.Version)
	verify := func(prefix, part string) error {
		at := staged
		at.prefix = s.Lab.Registry + "/" + prefix
		return cosign.verify(t.Context(), ask{verb: "verify", role: "release", kind: intoto.CosignSignature, target: at.reference(part)})
	}
	manifest := fmt.Sprintf("registries:\n- {name: %[1]s/staging/lantern, src: true}\n- {name: %[1]s/promoted}\nimages:\n- name: lantern\n  dmap: {%[2]q: [%[3]s]}\n",
		s.Lab.Registry, staged.index.Digest.String(), scene.Version)
	if err := os.WriteFile(s.Path("promotion.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := s.Run(t.Context(), "waybill", "promote", "plan", "promotion.yaml", "-o", "json")
	if err := os.WriteFile(s.Path("promotion.json"), []byte(plan.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.Run(t.Context(), "waybill", "promote", "apply", "promotion.json", "--profile", "profile.yaml", "--state", "promotions", "--confirm"); r.Code != 0 {
		t.Fatalf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	copied := staged
	copied.prefix = s.Lab.Registry + "/copied"
	if _, err := cosign.run(t.Context(), "copy", "--allow-http-registry", staged.reference("tag"), copied.reference("tag")); err != nil {
		t.Fatal(err)
	}
	for part := range staged.parts {
		for _, prefix := range []string{"staging/lantern", "promoted"} {
			if err := verify(prefix, part); err != nil {
				t.Errorf("%s of %s: %v", part, prefix, err)
			}
		}
		if err := verify("copied", part); err == nil {
			t.Errorf("%s: cosign copies signatures that refer to an image: say so where we say that it does not", part)
		}
	}
}
