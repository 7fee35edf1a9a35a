package library

// niche is a group of topics. A channel has one niche, and a semantic search for a topic also
// finds, further down, the others of its niche.
type niche struct {
	Name       string
	words      string // further English words for it
	categoryID string // of video details
	rpm        float64
	faceless   float64 // share of faceless channels
	Topics     []topic
}

// topic is the subject of a video, with its names in the order of [languages].
type topic struct {
	Names [8]string
	words string // related English words
}

var languages = [8]string{"en", "de", "es", "fr", "pt", "ja", "ko", "ar"}

// Niches are the subjects of channels.
var Niches = []niche{
	{"coffee", "coffee cafe barista caffeine beans brew brewing", "26", 6.5, 0.3, []topic{
		{[8]string{"home espresso", "Espresso zu Hause", "espresso en casa", "espresso maison", "espresso em casa", "おうちエスプレッソ", "홈 에스프레소", "إسبريسو منزلي"}, "machine portafilter crema shot dial"},
		{[8]string{"moka pot", "Mokakanne", "cafetera italiana", "cafetière italienne", "cafeteira italiana", "マキネッタ", "모카포트", "إبريق الموكا"}, "stovetop bialetti italian"},
		{[8]string{"latte art", "Latte Art", "arte latte", "latte art", "latte art", "ラテアート", "라떼아트", "فن اللاتيه"}, "milk steaming rosetta tulip cappuccino foam"},
		{[8]string{"pour over", "Handfilter", "café de filtro", "café filtre", "café coado", "ハンドドリップ", "핸드드립", "القهوة المقطرة"}, "v60 chemex filter drip kettle"},
		{[8]string{"coffee grinder", "Kaffeemühle", "molinillo de café", "moulin à café", "moedor de café", "コーヒーミル", "커피 그라인더", "مطحنة القهوة"}, "burr grind grinding"},
	}},
	{"gaming", "game games gaming gamer play playthrough", "20", 2.2, 0.6, []topic{
		{[8]string{"Minecraft", "Minecraft", "Minecraft", "Minecraft", "Minecraft", "マインクラフト", "마인크래프트", "ماينكرافت"}, "redstone survival creeper block build"},
		{[8]string{"speedrun", "Speedrun", "speedrun", "speedrun", "speedrun", "スピードラン", "스피드런", "سبيدرن"}, "glitch any% record fastest"},
		{[8]string{"retro gaming", "Retro-Spiele", "juegos retro", "rétrogaming", "jogos retrô", "レトロゲーム", "레트로 게임", "ألعاب قديمة"}, "console cartridge nes arcade emulator"},
		{[8]string{"chess", "Schach", "ajedrez", "échecs", "xadrez", "将棋とチェス", "체스", "شطرنج"}, "opening gambit checkmate grandmaster elo"},
		{[8]string{"indie games", "Indie-Spiele", "juegos indie", "jeux indés", "jogos indie", "インディーゲーム", "인디 게임", "ألعاب مستقلة"}, "devlog unity godot steam demo"},
	}},
	{"tech", "tech technology computer gadget hardware software", "28", 7.8, 0.45, []topic{
		{[8]string{"mechanical keyboard", "mechanische Tastatur", "teclado mecánico", "clavier mécanique", "teclado mecânico", "メカニカルキーボード", "기계식 키보드", "لوحة مفاتيح ميكانيكية"}, "keyboards switches keycaps lube typing"},
		{[8]string{"home lab", "Heimserver", "servidor casero", "serveur maison", "servidor caseiro", "自宅サーバー", "홈서버", "خادم منزلي"}, "homelab nas proxmox rack server"},
		{[8]string{"Linux desktop", "Linux-Desktop", "escritorio Linux", "bureau Linux", "desktop Linux", "Linuxデスクトップ", "리눅스 데스크톱", "سطح مكتب لينكس"}, "arch ubuntu distro terminal wayland"},
		{[8]string{"3D printing", "3D-Druck", "impresión 3D", "impression 3D", "impressão 3D", "3Dプリンター", "3D 프린팅", "الطباعة ثلاثية الأبعاد"}, "filament printer nozzle pla benchy"},
		{[8]string{"AI tools", "KI-Werkzeuge", "herramientas de IA", "outils IA", "ferramentas de IA", "AIツール", "AI 도구", "أدوات الذكاء الاصطناعي"}, "artificial intelligence prompt model agent automation"},
	}},
	{"cooking", "cooking food recipe kitchen chef eat", "26", 4.1, 0.35, []topic{
		{[8]string{"sourdough", "Sauerteig", "masa madre", "levain", "fermentação natural", "サワードウ", "사워도우", "خبز العجين المخمر"}, "bread starter loaf crumb baking flour"},
		{[8]string{"ramen", "Ramen", "ramen", "ramen", "lámen", "ラーメン", "라멘", "رامن"}, "noodles broth tonkotsu soup"},
		{[8]string{"meal prep", "Meal Prep", "batch cooking", "batch cooking", "marmitas da semana", "作り置き", "식단 준비", "تحضير الوجبات"}, "lunch protein week containers healthy"},
		{[8]string{"street food", "Streetfood", "comida callejera", "street food", "comida de rua", "屋台グルメ", "길거리 음식", "طعام الشارع"}, "market vendor night stall"},
		{[8]string{"pizza dough", "Pizzateig", "masa de pizza", "pâte à pizza", "massa de pizza", "ピザ生地", "피자 도우", "عجينة البيتزا"}, "neapolitan oven pizza mozzarella"},
	}},
	{"fitness", "fitness workout training exercise body health", "17", 4.9, 0.15, []topic{
		{[8]string{"calisthenics", "Calisthenics", "calistenia", "callisthénie", "calistenia", "自重トレーニング", "맨몸운동", "تمارين وزن الجسم"}, "pullup pushup planche muscle bodyweight"},
		{[8]string{"marathon training", "Marathontraining", "entrenar un maratón", "préparer un marathon", "treino de maratona", "マラソン練習", "마라톤 훈련", "تدريب الماراثون"}, "running runner pace shoes race"},
		{[8]string{"yoga", "Yoga", "yoga", "yoga", "ioga", "ヨガ", "요가", "يوغا"}, "stretch flexibility asana breathing morning"},
		{[8]string{"bouldering", "Bouldern", "búlder", "escalade de bloc", "boulder", "ボルダリング", "볼더링", "تسلق الصخور"}, "climbing climb crimp gym grip"},
		{[8]string{"cold plunge", "Eisbaden", "baño de hielo", "bain glacé", "banho de gelo", "アイスバス", "냉수욕", "حمام الثلج"}, "ice bath sauna recovery"},
	}},
	{"making", "diy make maker build craft workshop handmade", "26", 5.2, 0.5, []topic{
		{[8]string{"woodworking", "Holzwerken", "carpintería", "menuiserie", "marcenaria", "木工", "목공", "النجارة"}, "wood joinery plane saw table bench"},
		{[8]string{"leathercraft", "Lederhandwerk", "marroquinería", "maroquinerie", "couro artesanal", "レザークラフト", "가죽공예", "صناعة الجلود"}, "leather wallet stitch bag"},
		{[8]string{"crochet", "Häkeln", "ganchillo", "crochet", "crochê", "かぎ針編み", "코바늘", "الكروشيه"}, "yarn knit knitting amigurumi granny"},
		{[8]string{"van conversion", "Camper-Ausbau", "camperización", "fourgon aménagé", "motorhome caseiro", "バンライフ", "캠핑카 개조", "تحويل شاحنة لبيت"}, "vanlife camper sprinter van"},
		{[8]string{"pottery", "Töpfern", "cerámica", "poterie", "cerâmica", "陶芸", "도예", "الفخار"}, "clay glaze wheel kiln mug"},
	}},
	{"money", "money finance income business rich wealth", "27", 14.5, 0.55, []topic{
		{[8]string{"index funds", "ETF-Sparplan", "fondos indexados", "ETF", "fundos de índice", "インデックス投資", "인덱스 펀드", "صناديق المؤشرات"}, "investing invest stocks etf dividend portfolio"},
		{[8]string{"side hustle", "Nebenverdienst", "ingresos extra", "revenus complémentaires", "renda extra", "副業", "부업", "دخل إضافي"}, "passive earn freelance online job"},
		{[8]string{"minimalism", "Minimalismus", "minimalismo", "minimalisme", "minimalismo", "ミニマリスト", "미니멀리즘", "البساطة"}, "declutter simple frugal less"},
		{[8]string{"home buying", "Hauskauf", "comprar casa", "acheter sa maison", "comprar casa", "マイホーム購入", "내 집 마련", "شراء منزل"}, "mortgage house rent property loan"},
		{[8]string{"budgeting", "Haushaltsbuch", "presupuesto familiar", "budget familial", "orçamento familiar", "家計簿", "가계부", "ميزانية الأسرة"}, "budget saving debt spending envelope"},
	}},
	{"learning", "learn learning study explained science history documentary", "27", 5.9, 0.65, []topic{
		{[8]string{"Roman history", "römische Geschichte", "historia de Roma", "histoire romaine", "história de Roma", "ローマ史", "로마사", "تاريخ روما"}, "rome empire caesar legion ancient"},
		{[8]string{"black holes", "Schwarze Löcher", "agujeros negros", "trous noirs", "buracos negros", "ブラックホール", "블랙홀", "الثقوب السوداء"}, "space physics universe astronomy galaxy"},
		{[8]string{"language learning", "Sprachenlernen", "aprender idiomas", "apprendre les langues", "aprender idiomas", "語学学習", "외국어 공부", "تعلم اللغات"}, "fluent polyglot vocabulary japanese spanish grammar"},
		{[8]string{"piano practice", "Klavier üben", "practicar piano", "travailler le piano", "praticar piano", "ピアノ練習", "피아노 연습", "تدريب البيانو"}, "chords music scales chopin keys"},
		{[8]string{"urban gardening", "Balkongarten", "huerto urbano", "potager urbain", "horta urbana", "ベランダ菜園", "베란다 텃밭", "الزراعة المنزلية"}, "garden tomato plants compost seeds balcony"},
	}},
}
