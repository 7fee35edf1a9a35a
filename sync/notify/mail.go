package notify

import (
	"context"
	"fmt"

	"github.com/wneessen/go-mail"

	"outlierd/sync/job"
)

// sendMail sends an event by SMTP. The id of the event is that of the message, by which a mail
// program recognizes one that was sent twice.
func sendMail(ctx context.Context, m *job.Mail, e Event) error {
	msg := mail.NewMsg()
	if err := msg.From(m.From); err != nil {
		return fmt.Errorf("the address of the sender: %w", err)
	}
	if err := msg.To(m.To...); err != nil {
		return fmt.Errorf("the address of a recipient: %w", err)
	}
	msg.Subject("[outlierd] " + oneLine(e.Title))
	msg.SetMessageIDWithValue(e.ID + "@outlierd.invalid")
	msg.SetDateWithValue(e.Time)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, e.Title+"\n\n"+e.about(nothing)+"\n")
	client, err := mail.NewClient(m.Host, mailOptions(m)...)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Host, err)
	}
	if err := client.DialAndSendWithContext(ctx, msg); err != nil {
		return fmt.Errorf("%s: %w", m.Host, err)
	}
	return nil
}

func mailOptions(m *job.Mail) []mail.Option {
	options := []mail.Option{mail.WithPort(m.Port), mail.WithTimeout(timeout)}
	switch m.TLS {
	case job.MailTLS:
		options = append(options, mail.WithSSL())
	case job.MailPlain:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if m.User != "" {
		auth := mail.SMTPAuthAutoDiscover
		if m.TLS == job.MailPlain { // on loopback, as the job file's rules have it
			auth = mail.SMTPAuthPlainNoEnc
		}
		options = append(options, mail.WithSMTPAuth(auth),
			mail.WithUsername(m.User), mail.WithPassword(m.Password.Reveal()))
	}
	return options
}
