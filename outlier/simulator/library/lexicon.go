package library

// phrases are templates for texts of creators and viewers in one language. {t} stands for
// the topic, {n} for a number from 2 to 99, {a} for a person's name.
type phrases struct {
	titles       []string
	shorts       []string
	spoken       []string // one transcript event each
	comments     []string
	people       []string // of people
	channels     []string // channel titles
	descriptions []string // paragraphs of descriptions
}

// decorations end one title in four.
var decorations = []string{"🔥", "☕", "😱", "🤯", "✨", "👀", "(4K)", "👨‍👩‍👧‍👦", "🇯🇵", "❤️", "💀", "½ price", "— #1", "😂😂😂"}

// hostile are titles that people write to break programs. One title in a hundred is one.
var hostile = []string{
	`{t}'); DROP TABLE outliers;--`,
	`=HYPERLINK("http://x.invalid","{t}")`,
	`<script>alert("{t}")</script>`,
	"{t} \x1b[31mred\x1b[0m",
	`{t}, "quoted", and a \ backslash, {n}%`,
	"{t}\u202eesrever\u202c ${HOME} {{7*7}}",
	"Z͑ͫ̓ͪ̂a͆l̕g̴o {t}",
}

// phrasesOf are in the order of languages.
var phrasesOf = [8]phrases{
	{
		titles: []string{
			"I tried {t} for {n} days", "The truth about {t}", "{t}: what nobody tells you", "{n} {t} mistakes you're still making", "Why {t} changed my life",
			"Cheap vs expensive {t}", "{t} for beginners (full guide)", `"{t} is easy," they said`, "How I got better at {t} in {n} hours", "Don't buy anything for {t} until you watch this",
			"The ULTIMATE {t} setup", "{a} taught me {t}", "Is {t} worth it?", "Ranking {n} {t} tips from worst to best", "{t} on a ${n} budget",
		},
		shorts:       []string{"{t} in {n} seconds", "wait for it… {t}", "POV: {t} at 3am", "this {t} hack 🤌", "{t} gone wrong", "nobody: … me: {t}"},
		spoken:       []string{"so let's talk about {t}", "and this is where it gets interesting", "I've been doing this for {n} years", "you don't need anything expensive", "[Music]", "let me show you what I mean", "okay so that didn't work", "the first thing you notice is the sound", "about {n} percent of people get this wrong", "I asked {a} and he said no", "and honestly it's not even close", "if you look closely you can see it", "that's the secret to {t}", "right, let's try that again", "[Applause]", "and we're back", "thanks to everyone who supports the channel", "it took me {n} attempts", "which brings me to the next point", "it's better than I expected"},
		comments:     []string{"This is the best {t} video on the whole site.", "Who else is watching this at 2am? 😂", "{n}:12 had me dying 💀", "I've been doing {t} for {n} years and I still learned something.", "First!", "Can you do one about {t} for left-handed people?", "My grandfather would have loved this. Rest easy, old man.", "@{a} I disagree, the cheap one is fine.", "@{a} thanks!!", "\"it's not even close\"\n\n…it was close", "Algorithm, bless this man.", "Came for {t}, stayed for the dog", "The editing on this is insane", "lol", "Unpopular opinion: the old videos were better."},
		people:       []string{"James", "Olivia", "Liam O'Brien", "Priya", "Marcus", "Zoë", "Ethan", "Grace", "Noah", "Ava"},
		channels:     []string{"{a}'s {t} Diary", "The {t} Lab", "{t} with {a}", "Honest {t}", "{a} & Co.", "Daily {t}", "{t} Explained", "Slow {t}"},
		descriptions: []string{"Everything I know about {t}, in one video.", "⏱ Chapters\n0:00 Intro\n1:{n} {t}\n9:{n} Results", "Gear I use: https://shop.invalid/{n}", "Business: \"hello@channel.invalid\"", "Thanks for watching!\n\n#{n}"},
	},
	{
		titles: []string{
			"{t}: {n} Fehler, die jeder macht", "Ich habe {n} Tage lang {t} getestet", "Die Wahrheit über {t}", "{t} für Anfänger – so geht’s", "Lohnt sich {t} wirklich?",
			"„{t}“ im Härtetest", "{t}: günstig gegen teuer", "So gelingt {t} garantiert", "{a} zeigt mir {t}", "Warum {t} süchtig macht",
		},
		shorts:       []string{"{t} in {n} Sekunden", "Das passiert bei {t} 😳", "{t}-Trick, den keiner kennt", "Wenn {t} schiefgeht"},
		spoken:       []string{"heute geht es um {t}", "und genau da liegt das Problem", "das mache ich jetzt seit {n} Jahren", "man braucht dafür nichts Teures", "[Musik]", "ich zeig euch mal, was ich meine", "okay, das war nichts", "ungefähr {n} Prozent machen das falsch", "{a} hat mir davon abgeraten", "schaut mal genau hin", "das ist das ganze Geheimnis von {t}", "gut, noch mal von vorn", "größer, süßer, schöner", "schreibt's gern in die Kommentare", "das überrascht mich jetzt doch"},
		comments:     []string{"Bestes Video über {t}, das ich je gesehen habe!", "Grüße aus Österreich 🇦🇹", "Bei {n}:30 musste ich so lachen 😂", "Ich mache {t} seit {n} Jahren und habe trotzdem was gelernt.", "Erster", "@{a} sehe ich anders.", "Könntest du mal was über {t} für Linkshänder machen?", "Ton ist leider etwas leise.", "Danke für die Mühe!", "„Ist doch ganz einfach“ 🙃"},
		people:       []string{"Jürgen", "Sabine", "Lukas", "Käthe", "Björn", "Anna-Lena", "Müller", "Heiko"},
		channels:     []string{"{a}s {t}-Kanal", "{t} mit {a}", "Die {t}-Werkstatt", "Einfach {t}", "{a} probiert's aus"},
		descriptions: []string{"Alles, was ich über {t} weiß.", "Kapitel:\n0:00 Einleitung\n2:{n} {t}", "Werbung wegen Markennennung. https://shop.invalid/{n}", "Schönen Gruß, euer Team"},
	},
	{
		titles: []string{
			"Probé {t} durante {n} días", "La verdad sobre {t}", "{n} errores de {t} que sigues cometiendo", "¿Vale la pena {t}?", "{t} desde cero: guía completa",
			"¡Nadie te cuenta esto de {t}!", "{t}: barato contra caro", "Así aprendí {t} en {n} horas", "{a} me enseñó {t}", "El mejor truco de {t} del año",
		},
		shorts:       []string{"{t} en {n} segundos", "espera al final… {t}", "¡{t} salió mal! 😂", "el truco de {t} 🤌"},
		spoken:       []string{"hoy vamos a hablar de {t}", "y aquí viene lo interesante", "llevo {n} años haciendo esto", "no hace falta gastar mucho", "[Música]", "les muestro lo que digo", "bueno, eso no funcionó", "el {n} por ciento se equivoca aquí", "le pregunté a {a} y me dijo que no", "fíjense bien en este detalle", "ese es el secreto de {t}", "vamos otra vez", "mañana les cuento más", "¿y saben qué pasó?"},
		comments:     []string{"El mejor video de {t} que he visto 👏", "Saludos desde Perú 🇵🇪", "Minuto {n}:05 jajajaja", "Llevo {n} años con {t} y aprendí algo nuevo.", "¡Primero!", "@{a} no estoy de acuerdo", "¿Harías uno para zurdos?", "Qué crack, gracias por tanto", "\"Es fácil\", dice… 😅"},
		people:       []string{"José", "Lucía", "Íñigo", "María", "Andrés", "Ñuflo", "Camila", "Raúl"},
		channels:     []string{"{t} con {a}", "El rincón de {t}", "{a} y su {t}", "Todo {t}"},
		descriptions: []string{"Todo lo que sé sobre {t}.", "Capítulos:\n0:00 Introducción\n1:{n} {t}", "Contacto: \"hola@canal.invalid\"", "¡Gracias por ver!"},
	},
	{
		titles: []string{
			"J’ai testé {t} pendant {n} jours", "La vérité sur {t}", "{n} erreurs à éviter : {t}", "{t} : faut-il se lancer ?", "Débuter avec {t} (guide complet)",
			"« {t} », c’est facile ?", "{t} : pas cher contre hors de prix", "Comment j’ai progressé en {n} heures – {t}", "{a} m’apprend {t}", "Personne ne parle de ça : {t}",
		},
		shorts:       []string{"{t} en {n} secondes", "attends la fin… {t}", "quand {t} tourne mal 😅", "l’astuce {t}"},
		spoken:       []string{"aujourd’hui on parle de {t}", "et c’est là que ça devient intéressant", "ça fait {n} ans que je fais ça", "pas besoin de dépenser une fortune", "[Musique]", "je vous montre ce que je veux dire", "bon, ça n’a pas marché", "{n} pour cent des gens se trompent", "j’ai demandé à {a}, il m’a dit non", "regardez bien ici", "voilà le secret : {t}", "allez, on recommence", "dès l’été prochain", "c’est mieux que prévu"},
		comments:     []string{"Meilleure vidéo sur {t} !", "Salut du Québec 🇨🇦", "{n}:40 je suis mort 😂", "Ça fait {n} ans et j’ai quand même appris un truc.", "Preum’s", "@{a} pas d’accord", "Une version pour les gauchers ?", "Merci pour ton travail ❤️", "Le son est un peu bas, non ?"},
		people:       []string{"Élodie", "François", "Chloé", "Loïc", "Anaïs", "Guillaume", "Noémie", "d’Arcy"},
		channels:     []string{"{t} avec {a}", "L’atelier {t}", "{a} découvre {t}", "Parlons {t}"},
		descriptions: []string{"Tout ce que je sais : {t}.", "Chapitres :\n0:00 Intro\n3:{n} {t}", "Contact : « bonjour@chaine.invalid »", "Merci d’avoir regardé !"},
	},
	{
		titles: []string{
			"Testei {t} por {n} dias", "A verdade sobre {t}", "{n} erros de {t} que você comete", "{t} vale a pena?", "{t} do zero: guia completo",
			"Ninguém te conta isso sobre {t}!", "{t}: barato x caro", "Como aprendi {t} em {n} horas", "{a} me ensinou {t}", "O melhor de {t}",
		},
		shorts:       []string{"{t} em {n} segundos", "espera o final… {t}", "{t} deu ruim 😂", "truque de {t}"},
		spoken:       []string{"hoje vamos falar de {t}", "e é aqui que fica interessante", "faço isso há {n} anos", "não precisa gastar muito", "[Música]", "deixa eu mostrar", "tá, não deu certo", "{n} por cento erram aqui", "perguntei pro {a} e ele disse não", "olha bem esse detalhe", "esse é o segredo de {t}", "vamos de novo", "amanhã tem mais", "não é tão difícil assim"},
		comments:     []string{"Melhor vídeo de {t} que já vi!", "Salve de Minas 🇧🇷", "{n}:20 kkkkkkkk", "Faço {t} há {n} anos e aprendi coisa nova.", "Primeiro!", "@{a} discordo", "Faz um pra canhotos?", "Que edição absurda 🔥", "Obrigado pelo conteúdo!"},
		people:       []string{"João", "Inês", "Thaís", "Antônio", "Conceição", "Luís", "Bia", "Caíque"},
		channels:     []string{"{t} com {a}", "Canal {t}", "{a} e {t}", "Só {t}"},
		descriptions: []string{"Tudo o que sei sobre {t}.", "Capítulos:\n0:00 Abertura\n1:{n} {t}", "Contato: \"oi@canal.invalid\"", "Valeu por assistir!"},
	},
	{
		titles: []string{
			"【検証】{t}を{n}日続けてみた", "{t}の真実", "{t}で絶対やってはいけない{n}のこと", "初心者のための{t}入門", "プロが教える{t}のコツ",
			"「{t}」が人生を変えた", "{t}、安いのと高いの何が違う？", "【神回】{t}", "{a}と{t}", "{t}おすすめ{n}選",
		},
		shorts:       []string{"{n}秒で分かる{t}", "{t}あるある😂", "まさかの{t}", "{t}の裏ワザ"},
		spoken:       []string{"今日は{t}についてお話しします", "ここからが面白いんです", "もう{n}年やっています", "高いものは必要ありません", "[音楽]", "実際に見てみましょう", "あれ、うまくいきませんね", "{n}パーセントの人が間違えます", "{a}さんに聞いてみました", "よく見てください", "これが{t}の秘密です", "もう一回やってみます", "思ったより良いですね", "チャンネル登録お願いします"},
		comments:     []string{"{t}の動画で一番分かりやすい！", "{n}:15 ここ好き", "{n}年やってるけど勉強になりました。", "1コメ", "@{a} それな", "左利き用もお願いします🙇", "編集お疲れ様です", "草", "おじいちゃんにも見せたい😭"},
		people:       []string{"太郎", "さくら", "健一", "ゆい", "髙橋", "蓮", "美咲", "翔"},
		channels:     []string{"{a}の{t}チャンネル", "{t}研究所", "ゆる{t}", "{a}ちゃんねる"},
		descriptions: []string{"{t}について全部話します。", "▼目次\n0:00 はじめに\n1:{n} {t}", "お仕事のご依頼：「hello@channel.invalid」", "ご視聴ありがとうございました！"},
	},
	{
		titles: []string{
			"{t} {n}일 동안 해봤습니다", "{t}의 진실", "아무도 안 알려주는 {t}", "초보자를 위한 {t} 완벽 가이드", "{t} 실수 {n}가지",
			"\"{t}\" 이게 된다고?", "{t} 싼 거 vs 비싼 거", "{a}에게 배운 {t}", "{t} 추천 TOP {n}", "{t}, 돈값 할까?",
		},
		shorts:       []string{"{n}초 {t}", "{t} 꿀팁 🤌", "끝까지 보세요… {t}", "{t} 망한 썰"},
		spoken:       []string{"오늘은 {t} 이야기를 해볼게요", "여기서부터 재밌습니다", "이걸 {n}년 동안 했어요", "비싼 건 필요 없습니다", "[음악]", "직접 보여드릴게요", "아, 이건 안 되네요", "{n}퍼센트가 여기서 틀려요", "{a}님한테 물어봤어요", "자세히 보세요", "이게 {t}의 비밀입니다", "다시 해볼게요", "생각보다 좋네요"},
		comments:     []string{"{t} 영상 중에 최고예요 👍", "{n}:10 ㅋㅋㅋㅋㅋ", "{n}년 했는데도 배우고 갑니다", "1빠", "@{a} 저는 반대예요", "왼손잡이용도 해주세요", "편집 미쳤다", "감사합니다 ❤️"},
		people:       []string{"민준", "서연", "지훈", "하은", "도윤", "수아", "김씨", "예린"},
		channels:     []string{"{a}의 {t}", "{t} 연구소", "오늘의 {t}", "{a}TV"},
		descriptions: []string{"{t}에 대한 모든 것.", "목차\n0:00 시작\n2:{n} {t}", "문의: \"hello@channel.invalid\"", "시청해 주셔서 감사합니다!"},
	},
	{
		titles: []string{
			"جربت {t} لمدة {n} يومًا", "الحقيقة عن {t}", "{n} أخطاء في {t}", "هل يستحق {t} التجربة؟", "{t} للمبتدئين: الدليل الكامل",
			"لا أحد يخبرك بهذا عن {t}!", "«{t}» سهل؟", "{t}: رخيص ضد غالي", "{a} علمني {t}", "أفضل {n} نصائح: {t}",
		},
		shorts:       []string{"{t} في {n} ثانية", "انتظر النهاية… {t}", "حيلة {t} 🤯", "عندما يفشل {t}"},
		spoken:       []string{"سنتحدث اليوم عن {t}", "وهنا يصبح الأمر ممتعًا", "أفعل هذا منذ {n} سنة", "لا تحتاج إلى شيء غالٍ", "[موسيقى]", "دعوني أريكم ما أعني", "حسنًا، لم ينجح هذا", "{n} بالمئة يخطئون هنا", "سألت {a} فقال لا", "انظروا جيدًا", "هذا هو سر {t}", "لنحاول مرة أخرى", "أفضل مما توقعت"},
		comments:     []string{"أفضل فيديو عن {t} 👏", "تحية من المغرب 🇲🇦", "الدقيقة {n}:05 ههههه", "منذ {n} سنة وما زلت أتعلم.", "أول تعليق", "@{a} لا أتفق معك", "شكرًا على المجهود ❤️", "ما شاء الله"},
		people:       []string{"محمد", "فاطمة", "يوسف", "ليلى", "عمر", "نور", "خالد", "سارة"},
		channels:     []string{"{t} مع {a}", "قناة {t}", "عالم {t}", "يوميات {a}"},
		descriptions: []string{"كل ما أعرفه عن {t}.", "الفصول:\n0:00 مقدمة\n1:{n} {t}", "للتواصل: \"hello@channel.invalid\"", "شكرًا للمشاهدة!"},
	},
}
