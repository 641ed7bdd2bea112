package digest

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"io"
)

// MismatchError reports bytes of the right size with the wrong digest.
type MismatchError struct {
	Want Digest // what was asked for
	Got  Digest // what the bytes hash to; zero if Want names nothing
}

// Error names both digests.
func (e *MismatchError) Error() string {
	if e.Want.IsZero() {
		return "verifying bytes: no digest to verify against"
	}
	return fmt.Sprintf("verifying bytes: digest is %s, want %s", e.Got, e.Want)
}

// Code is the reason code of the refusal that the error amounts to.
func (e *MismatchError) Code() string { return "TAMPERED" }

// SizeError reports a stream that is shorter or longer than expected. Got is
// exact for a short stream; a long one is not read past its first surplus
// byte, so there Got is Want+1 and means "at least".
type SizeError struct {
	Want int64
	Got  int64
}

// Error says in which direction the size is wrong.
func (e *SizeError) Error() string {
	switch {
	case e.Want < 0:
		return fmt.Sprintf("verifying bytes: no size to verify against (%d)", e.Want)
	case e.Got > e.Want:
		return fmt.Sprintf("verifying bytes: more than the expected %d bytes", e.Want)
	}
	return fmt.Sprintf("verifying bytes: ended after %d of %d bytes", e.Got, e.Want)
}

// Code is the reason code of the refusal that the error amounts to.
func (e *SizeError) Code() string { return "TAMPERED" }

// NewVerifyingReader returns a reader of the bytes of r that ends with
// [io.EOF] only if there were exactly size of them and they hash to want.
// Otherwise it ends with a [*SizeError], a [*MismatchError] or the error of r.
//
// At most size+1 bytes are read from r and at most size are delivered. The
// read that would deliver the last byte first looks for the end of r and
// compares the digest, and delivers nothing if either is wrong: a caller that
// reads exactly size bytes and never asks for io.EOF is protected too. What
// was delivered before an error must be discarded; it was never verified.
//
// A zero want or a negative size verifies nothing and refuses everything.
func NewVerifyingReader(r io.Reader, want Digest, size int64) io.Reader {
	v := &verifyingReader{r: r, want: want, size: size}
	switch {
	case size < 0:
		v.err = &SizeError{Want: size}
	case want.alg == SHA256:
		v.hash = sha256.New()
	case want.alg == SHA512:
		v.hash = sha512.New()
	default:
		v.err = &MismatchError{}
	}
	return v
}

type verifyingReader struct {
	r    io.Reader
	hash hash.Hash
	want Digest
	size int64 // expected in all
	seen int64 // read from r so far
	err  error // how the stream ended, once it has
}

// Read implements [io.Reader] as promised by [NewVerifyingReader].
func (v *verifyingReader) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	limit := min(int64(len(p)), v.size-v.seen)
	n, ended, err := v.pull(p[:limit:limit])
	switch {
	case err != nil:
		v.err = err
	case v.seen == v.size:
		v.err = v.finish(ended)
	case ended:
		v.err = &SizeError{Want: v.size, Got: v.seen}
	default:
		return n, nil
	}
	if v.err == io.EOF && n > 0 {
		return n, nil
	}
	// Nothing of a refused last read is delivered, not even to a caller who
	// looks into the buffer beyond n.
	clear(p[:n])
	return 0, v.err
}

// pull reads once from r into p, which lies within the expected size.
func (v *verifyingReader) pull(p []byte) (n int, ended bool, err error) {
	if len(p) == 0 {
		return 0, false, nil
	}
	n, err = v.r.Read(p)
	v.hash.Write(p[:n])
	v.seen += int64(n)
	switch {
	case err == io.EOF:
		return n, true, nil
	case err != nil:
		return n, false, readError("to verify", err)
	}
	return n, false, nil
}

// finish is called when all expected bytes were seen. It answers io.EOF only
// if r has no more and the digest is the wanted one.
func (v *verifyingReader) finish(ended bool) error {
	if !ended {
		if err := v.expectEnd(); err != nil {
			return err
		}
	}
	if got := fromSum(v.want.alg, v.hash.Sum(nil)); !got.Equal(v.want) {
		return &MismatchError{Want: v.want, Got: got}
	}
	return io.EOF
}

func (v *verifyingReader) expectEnd() error {
	var surplus [1]byte
	for range maxEmptyReads {
		n, err := v.r.Read(surplus[:])
		switch {
		case n > 0:
			v.seen++
			return &SizeError{Want: v.size, Got: v.seen}
		case err == io.EOF:
			return nil
		case err != nil:
			return readError("to verify", err)
		}
	}
	return readError("to verify", io.ErrNoProgress)
}
