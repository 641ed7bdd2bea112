package attacks

import (
	"bytes"
	"math/rand/v2"
	"testing"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
)

// TestMangledBundles changes bundles at random, byte by byte and field by
// field. A mangled bundle may be accepted only where the change means nothing:
// then it proves exactly what the genuine one proves.
func TestMangledBundles(t *testing.T) {
	w := theWorld(t)
	a := w.author(t, lab.RoleRelease)
	set := digest.SetOf([]byte(artifact))
	rows := []struct {
		name    string
		genuine *bundlepb.Bundle
		verify  func([]byte) (verify.Evidence, error)
	}{
		{"blob", a.sign(t, blob()), func(raw []byte) (verify.Evidence, error) { return w.verifier.Blob(raw, set) }},
		{"attestation", a.sign(t, envelope(statement())), w.verifier.Attestation},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			raw := encode(t, r.genuine)
			want := must[verify.Evidence](t)(r.verify(raw))
			dice := rand.New(rand.NewPCG(1, 2)) // the same every time
			harmless := 0
			for range 1000 {
				mangled := mangle(dice, raw)
				e, err := r.verify(mangled)
				if err != nil {
					continue
				}
				harmless++
				if !sameProof(e, want) {
					t.Errorf("accepted for something else:\n%s", mangled)
				}
				if !unsigned(t, r.genuine, mangled) {
					t.Errorf("accepted with another meaning:\n%s", mangled)
				}
			}
			t.Logf("%d of 1000 changes were harmless", harmless)
			if harmless > 100 {
				t.Errorf("%d of 1000 changes were accepted", harmless)
			}
		})
	}
}

// mangle changes, drops, doubles or exchanges bytes.
func mangle(dice *rand.Rand, raw []byte) []byte {
	const alphabet = "ABCabc019+/=-_\"{}[],:\\ \n"
	out := bytes.Clone(raw)
	i := dice.IntN(len(out))
	switch dice.IntN(5) {
	case 0:
		out[i] ^= 1 << dice.IntN(8)
	case 1:
		out[i] = alphabet[dice.IntN(len(alphabet))]
	case 2:
		out = append(out[:i], out[i+1:]...)
	case 3:
		out = append(out[:i], append([]byte{alphabet[dice.IntN(len(alphabet))]}, out[i:]...)...)
	case 4:
		j := dice.IntN(len(out))
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// sameProof compares everything that evidence says.
func sameProof(got, want verify.Evidence) bool {
	return got.Identity() == want.Identity() && got.Kind() == want.Kind() && got.LogIndex() == want.LogIndex() &&
		got.SignedAt().Equal(want.SignedAt()) && bytes.Equal(got.Statement().Raw(), want.Statement().Raw())
}

// unsigned reports whether two bundles differ only in what proves nothing: what
// the log says again beside its signed checkpoint, and the wrapping of the
// timestamp, whose time is compared with the rest of the proof.
func unsigned(t *testing.T, genuine *bundlepb.Bundle, mangled []byte) bool {
	t.Helper()
	var b bundlepb.Bundle
	if err := protojson.Unmarshal(mangled, &b); err != nil {
		t.Fatal(err)
	}
	forget := func(b *bundlepb.Bundle) *bundlepb.Bundle {
		b = proto.Clone(b).(*bundlepb.Bundle)
		for _, e := range b.VerificationMaterial.TlogEntries {
			e.CanonicalizedBody, e.KindVersion = nil, nil
			e.InclusionProof.RootHash, e.InclusionProof.TreeSize, e.InclusionProof.LogIndex = nil, 0, 0
		}
		b.VerificationMaterial.TimestampVerificationData = nil
		return b
	}
	return proto.Equal(forget(genuine), forget(&b))
}
