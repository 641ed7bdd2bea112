package main

import (
	"encoding/base64"
	"strings"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	rekorpb "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkpoints change what the log says of itself, and the proof against it.
func checkpoints() []vector {
	entry := func(b *bundlepb.Bundle) *rekorpb.TransparencyLogEntry { return b.VerificationMaterial.TlogEntries[0] }
	text := func(change func(string) string) func(*maker, *bundlepb.Bundle) {
		return func(_ *maker, b *bundlepb.Bundle) {
			c := entry(b).InclusionProof.Checkpoint
			c.Envelope = change(c.Envelope)
		}
	}
	signature := func(at int) func(*maker, *bundlepb.Bundle) {
		return text(func(note string) string {
			body, line, _ := strings.Cut(note, "\n\n")
			words := strings.Fields(line)
			sig, err := base64.StdEncoding.DecodeString(words[2])
			if err != nil {
				panic("vectors: " + err.Error())
			}
			sig[(at+len(sig))%len(sig)] ^= 1
			return body + "\n\n\u2014 " + words[1] + " " + base64.StdEncoding.EncodeToString(sig) + "\n"
		})
	}
	witness := "\u2014 witness.example AAAAAQID\n"
	lines := func(change func(body, sigs string) string) func(*maker, *bundlepb.Bundle) {
		return text(func(note string) string {
			body, sigs, _ := strings.Cut(note, "\n\n")
			return body + "\n\n" + change(body, sigs)
		})
	}
	return []vector{
		{"checkpoint-signature", "D11: one bit of the log's signature of its checkpoint", blob, signature(-1), nil, verdict.CheckpointSig},
		{"rekor-v1-checkpoint-signature", "D11: the same in a log of version 1", blobInOldLog, signature(-1), nil, verdict.CheckpointSig},
		{"checkpoint-key-hint", "D12: the signature names another key", blob, signature(0), nil, verdict.CheckpointSig},
		{"checkpoint-of-a-witness-alone", "D12: only a witness signed the checkpoint, not the log", blob,
			lines(func(_, _ string) string { return witness }), nil, verdict.CheckpointSig},
		{"checkpoint-origin", "D13: the checkpoint names another log", blob,
			text(func(note string) string { return "other." + note }), nil, verdict.CheckpointOrigin},
		{"checkpoint-without-origin", "D13: the checkpoint names no log", blob,
			text(func(note string) string { return note[strings.IndexByte(note, '\n'):] }), nil, verdict.CheckpointOrigin},
		{"checkpoint-witness-first", "D14: a witness signed as well, and stands first", blob,
			lines(func(_, sigs string) string { return witness + sigs }), nil, ""},
		{"checkpoint-witness-last", "D14: a witness signed as well, and stands last", blob,
			lines(func(_, sigs string) string { return sigs + witness }), nil, ""},
		{"rekor-v1-root-hash", "D15: the proof is against another root than the checkpoint's", blobInOldLog,
			func(_ *maker, b *bundlepb.Bundle) { entry(b).InclusionProof.RootHash[0] ^= 1 }, nil, verdict.LogProof},
		{"index-beyond-the-log", "D16: a place that the log does not have", blob,
			func(_ *maker, b *bundlepb.Bundle) { entry(b).LogIndex += 1 << 20 }, nil, verdict.LogProof},
		{"index-negative", "D16: a place before the first", blob,
			func(_ *maker, b *bundlepb.Bundle) { entry(b).LogIndex = -1 }, nil, verdict.BundleParse},
		{"proof-too-long", "D16: one hash more than the proof needs", blob, func(_ *maker, b *bundlepb.Bundle) {
			p := entry(b).InclusionProof
			p.Hashes = append(p.Hashes, p.Hashes[0])
		}, nil, verdict.LogProof},
		{"proof-too-short", "D16: one hash less than the proof needs", blob, func(_ *maker, b *bundlepb.Bundle) {
			p := entry(b).InclusionProof
			p.Hashes = p.Hashes[1:]
		}, nil, verdict.LogProof},
		{"rekor-v1-proof-changed", "D17: one bit of the proof; the promise beside it still holds", blobInOldLog,
			func(_ *maker, b *bundlepb.Bundle) { entry(b).InclusionProof.Hashes[0][0] ^= 1 }, nil, verdict.LogProof},
		{"log-kind", "D18: the checkpoint's first line makes a log of version 2 one of version 1", blob, text(func(note string) string {
			origin, rest, _ := strings.Cut(note, "\n")
			return origin + " - 123\n" + rest
		}), nil, verdict.LogKind},
		{"rekor-v1-log-kind", "D18: the checkpoint's first line makes a log of version 1 one of version 2", blobInOldLog, text(func(note string) string {
			origin, rest, _ := strings.Cut(note, "\n")
			host, _, _ := strings.Cut(origin, " - ")
			return host + "\n" + rest
		}), nil, verdict.LogKind},
		{"rekor-v1-time-unsigned", "D01: the promise is gone, and with it the only signature of the time", blobInOldLog, func(_ *maker, b *bundlepb.Bundle) {
			entry(b).InclusionPromise, b.VerificationMaterial.TimestampVerificationData = nil, nil
		}, nil, verdict.TimeUnsigned},
		{"rekor-v1-time-unsigned-and-changed", "D01: the same, with another time", blobInOldLog, func(_ *maker, b *bundlepb.Bundle) {
			entry(b).InclusionPromise, b.VerificationMaterial.TimestampVerificationData = nil, nil
			entry(b).IntegratedTime -= 60
		}, nil, verdict.TimeUnsigned},
	}
}
