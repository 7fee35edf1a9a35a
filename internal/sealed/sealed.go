// Package sealed encrypts files to recipients, and decrypts them with an identity, in the format of age.
package sealed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// parse reads public keys, one at a time, so that an error says which one is wrong.
func parse(recipients []string) (all []age.Recipient, err error) {
	for _, text := range recipients {
		r, err := age.ParseRecipients(strings.NewReader(text))
		switch {
		case strings.HasPrefix(strings.ToUpper(text), "AGE-SECRET-KEY-"):
			return nil, errors.New("is an identity, which is secret: write its public key, age1…; `age-keygen -y` prints it")
		case strings.HasPrefix(text, "ssh-"):
			return nil, errors.New("is a key of SSH: make one with `age-keygen`, and write its public key, age1…")
		case err != nil || len(r) != 1:
			return nil, fmt.Errorf("%q is no public key of age: copy it again; it begins with age1, and `age-keygen -y` prints it", shorten(text))
		}
		all = append(all, r[0])
	}
	return all, nil
}

// Check refuses recipients to which nothing can be encrypted. The error does not quote a secret key.
func Check(recipients []string) error {
	to, err := Writer(io.Discard, recipients)
	if err == nil {
		err = to.Close()
	}
	return err
}

// shorten returns the beginning of a public key, by which its owner recognizes it.
func shorten(recipient string) string {
	const maxShown = 16
	if len(recipient) <= maxShown {
		return recipient
	}
	return recipient[:maxShown] + "…"
}

// Writer encrypts what is written to it. The file is complete once it is closed.
func Writer(to io.Writer, recipients []string) (io.WriteCloser, error) {
	keys, err := parse(recipients)
	if err != nil {
		return nil, err
	}
	return age.Encrypt(to, keys...)
}

// Identity is a set of secret keys.
type Identity struct{ keys []age.Identity }

// ReadIdentity reads an identity file of age. Its errors quote nothing of it.
func ReadIdentity(from io.Reader) (*Identity, error) {
	text := bufio.NewReader(io.LimitReader(from, 1<<20))
	start, err := text.Peek(64)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch begins := strings.TrimSpace(string(start)); {
	case begins == "":
		return nil, errors.New("the identity is empty")
	case strings.HasPrefix(begins, "age-encryption.org/"), strings.HasPrefix(begins, "-----BEGIN AGE ENCRYPTED FILE"):
		return nil, errors.New("the identity has a passphrase: decrypt it, as in `age -d key.age | outlierd restore … --identity -`")
	case strings.HasPrefix(begins, "-----BEGIN "), strings.HasPrefix(begins, "ssh-"):
		return nil, errors.New("the identity is a key of SSH, and must be one of age, as `age-keygen` writes")
	case strings.HasPrefix(begins, "age1"):
		return nil, errors.New("this is a public key: the identity is the secret one, and begins with AGE-SECRET-KEY-")
	}
	keys, err := age.ParseIdentities(text)
	if err != nil {
		return nil, errors.New("the identity cannot be read: it must be a file that `age-keygen` wrote, with a line AGE-SECRET-KEY-…")
	}
	return &Identity{keys}, nil
}

// ErrOther is the error of an identity to which a file is not encrypted.
var ErrOther = errors.New("it is encrypted to another identity")

// Reader decrypts a file. It fails at the first piece that was changed or is missing.
func (i *Identity) Reader(from io.Reader) (io.Reader, error) {
	plain, err := age.Decrypt(from, i.keys...)
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
		return nil, ErrOther
	}
	return plain, err
}
