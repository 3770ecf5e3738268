"""English synonyms by group. Written for this project."""

# ruff: noqa: E501 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

SYNONYMS = """
delete remove erase | change modify alter edit update | reset restore | buy purchase order | begin start | end finish | stop cancel quit
folder directory | file document | picture photo image | phone mobile cellphone smartphone | laptop computer pc notebook | car automobile
price cost fee charge | quick fast rapid quickly | big large | small little | film movie | shop store | holiday vacation | flat apartment
doctor physician | kid child children kids | create make build generate | fix repair solve resolve | error bug problem issue fault
password passcode | email mail e-mail | person people someone somebody | company firm business | job work employment | salary pay wage
rent hire | send ship deliver mail | shipping delivery postage | receive get obtain | show display | find locate look_up | choose select pick
check verify | enable activate turn_on switch_on set_up | disable deactivate turn_off switch_off | login log_in sign_in | logout log_out sign_out
begin launch open run | function method | string text | list array | integer int | convert transform turn change | sort order | app application
program programme software | allowed permitted ok | need required necessary must | safe ok | summary summarise summarize overview
symptom symptoms sign signs | cause causes reason reasons | treat cure | prevent avoid | eat consume | drink beverage | lawyer attorney
metre metres meter meters | colour color | centre center | favourite favorite | organise organize | analyse analyze | licence license
city town | country nation | house home | teacher instructor | student pupil | exam test examination | mark grade | subject topic
refund reimbursement | return send_back | invoice bill receipt | subscription membership plan | account profile | contact reach call
support service helpdesk | warranty guarantee | size dimension | weight mass | height tall | length long | speed fast | distance far
often frequently | close shut | answer reply | say tell speak | big great | smart clever intelligent | author wrote writer | located situated
grow cultivate | learn study | teach explain | recipe cook make prepare | tip advice suggestion hint tips | funny joke | happen occur
population inhabitants people live | deadline due | apply application | block ban
"""

# Groups that overlap: a word may stand in several, and two words that share one count as the same.
MORE_SYNONYMS = """
street road avenue lane | trip journey voyage | trousers pants | autumn fall | petrol gasoline fuel | lorry truck | lift elevator | rubbish trash garbage waste
biscuit cookie | sweets candy | taxi cab | motorway highway freeway | aeroplane airplane plane aircraft | tap faucet | torch flashlight | nappy diaper
mum mom mother | dad father | grandma grandmother | grandpa grandfather | baby infant | teenager adolescent teen | dog puppy | cat kitten | couch sofa settee
fridge refrigerator | tv television telly | hoover vacuum | cooker stove oven | bin trashcan | garden yard | basement cellar | bathroom toilet restroom
kids children | meal dish | supper dinner | snack treat | beverage drink | medicine medication drug | illness disease sickness | ache pain | injury wound
nation state | capital | weather climate forecast | rain rainfall | money cash funds | loan mortgage credit | wage salary earnings income | tax taxes
discount reduction rebate deal | coupon voucher code | parcel package | courier carrier | cart basket | bill receipt | seller merchant vendor
customer client | staff employees personnel | boss manager supervisor | meeting appointment | vacation leave | contract agreement | resume cv
essay paper article | novel book | story tale | poem verse | image picture photo photograph | clip video | song track tune | movie film
website site webpage | link url | browser | folder directory | file document | screen display monitor | keyboard | laptop computer notebook pc
phone telephone mobile | charger adapter | battery | error bug fault issue problem | log logs | code script source | variable parameter | library package module
method function procedure routine | database db | table | column field | row record | query search | version release | settings preferences options configuration
account profile | username login userid | password passcode | email mail | message text | notification alert | update upgrade patch
begin start commence | finish complete end conclude | fix repair mend | help assist aid | get obtain acquire receive | buy purchase | select choose pick
keep maintain retain | need require | use utilize utilise employ | show display demonstrate | tell inform | ask inquire request | talk speak chat
answer reply respond | look search | locate find | make create build prepare produce | change modify alter adjust edit | improve enhance boost better
remove delete erase | clean wash tidy | cook prepare | boil simmer | fry saute | bake roast | chop cut slice | mix stir blend | heat warm
grow raise cultivate | walk stroll | run jog | travel go | visit | stay | leave | arrive come | reach contact | hire employ recruit | earn make
calculate compute determine work_out | explain describe clarify | compare contrast | summarize summarise outline | list enumerate | write compose draft
install set_up setup | enable activate | disable deactivate | connect link | setup configure set_up | access open | view see | check verify confirm test
share | save store | copy duplicate | send transmit | ship deliver post | pay | refund reimburse | return | cancel | claim request | apply request
allow permit let | stop quit cease | avoid prevent | treat cure heal remedy | relieve ease soothe alleviate | lose shed | gain put_on
fast quick rapid swift speedy | big large huge | small tiny little | easy simple | difficult hard tough | cheap inexpensive affordable low-cost
good nice great fine | important essential vital crucial | common usual typical popular | normal usual regular standard | safe secure | ill sick unwell
tired exhausted weary | happy glad | angry mad | smart clever intelligent | famous well-known popular | beautiful pretty lovely | correct right proper accurate
healthy nutritious | tasty delicious | entire whole complete full | different various | similar alike | main primary principal | right correct | wrong incorrect
broken damaged faulty defective | empty vacant | near close nearby | quickly fast rapidly | often frequently regularly | usually normally generally typically
approximately about roughly around | maximum max | minimum min | average mean | amount quantity number | part portion section | kind type sort
cost price fee charge | length duration | height | weight | speed velocity | distance | temperature | colour color shade | shape form
benefit advantage | drawback disadvantage | effect impact influence consequence | cause reason | purpose goal aim objective | result outcome
idea suggestion tip advice recommendation | rule regulation | law | right | step stage | pay payment | valid last | choice option | area region zone | rate speed | fee payment | way method approach technique | example instance sample
country nation | city town | place location spot | home house residence | shop store | hotel | restaurant diner | office workplace | school
hour hours | opening business working | zone | pupil student | professor lecturer | degree diploma | exam test | course class lesson | job occupation career
hero protagonist | founder creator | inventor | president | leader head | war conflict | occur happen take_place | consist comprise
promo promotional discount coupon voucher code | exit quit leave stop close | bring carry take pack | enter type input provide apply | luggage baggage bags suitcase
visit travel trip go | delayed late overdue | stained dirty | flight plane aircraft | passenger traveller traveler | booking reservation | stay accommodation
arrival arrive delivery | dispatch shipment shipping | missing lost | stolen theft | damaged broken cracked | replacement replace | exchange swap
charged billed debited | payment transaction | balance funds | withdraw cash_out | transfer wire remit | overdraft | statement | card | bank
decline declined rejected refused failed | approved accepted | verify confirm validate authenticate | identity id | document paperwork papers documentation
register enrol enroll sign_up join | unsubscribe opt_out cancel leave | newsletter mailing | message text sms | alert notification reminder | profile avatar photo picture
deactivate disable close | permanently forever good | recover retrieve restore regain | locked blocked | frozen stuck hanging unresponsive | crash freeze hang
slow sluggish laggy | speed performance | memory ram | storage space capacity | drive disk | processor cpu | connection internet network wifi wi-fi | wireless wifi wi-fi
repository repo | directory folder path | config configuration settings | environment env | parameter argument param arg | dictionary dict | boolean bool | character char
authentication auth | authorization auth | administrator admin | developer dev | application app | information info | documentation docs | specification spec
compile build | execute run | invoke call | instance object | loop iterate | duplicate repeated repeats | unique distinct | element item entry member | remove drop strip
concatenate join combine merge append | split separate divide | sort order arrange | reverse invert flip | round truncate | random arbitrary | length size count
throw raise | catch handle | exception error | debug troubleshoot diagnose | deploy release publish | install add | dependency package library | import include
query request | response reply answer | endpoint route url api | host server | port | timeout | retry reattempt | log record | print output display
recipe instructions directions preparation | ingredients | season spice | preserve store keep | leftovers leftover | spoil rot | ripe | peel skin
hurt ache pain sore | swelling swollen | fever temperature | flu influenza | cold | cough | headache migraine | nausea sick | vomit throw_up | tired fatigue fatigued
pill tablet medication medicine drug | dose dosage amount | pregnant pregnancy expecting | baby infant newborn | allergy allergic | side adverse | vaccine vaccination shot jab immunization
exercise workout training | lose shed drop burn | diet eating nutrition | calories calorie energy | sleep rest | insomnia | stress anxiety
mortgage loan | interest | invest investment | stocks shares equities | retirement pension | insurance coverage cover policy | premium | claim
tax taxes taxation | deduct deduction writeoff write-off | income earnings | budget spending expenses | debt owe | rent lease | landlord owner | tenant renter
lawsuit suit | contract agreement | clause term provision | liable responsible | will testament | divorce separation | custody
holiday vacation leave | sick illness | salary pay wage compensation | raise increase | resign quit leave | fired dismissed terminated | hire recruit employ | intern trainee
employee staff worker | colleague coworker co-worker | remote home | hours schedule timetable | shift | overtime | benefit perk
university college | school | tuition fee fees | scholarship grant bursary | thesis dissertation | essay paper | homework assignment | grade mark score | pupil student learner
planet world | earth globe | ocean sea | river stream | mountain peak | forest woods | wildlife animals | plant flower | tree | seed | soil dirt ground | water irrigate
begin start | ending end finish conclusion | quick brief short | summary overview synopsis abstract | paragraph passage | sentence phrase | grammar grammatical
correct fix revise proofread | rewrite rephrase paraphrase reword | translate translation | pronounce pronunciation | meaning definition | synonym | antonym opposite
write compose draft create | poem verse | letter message | speech talk | title headline | list enumerate | table | chart graph plot diagram | picture image
kilometre kilometer km | litre liter | gram gramme | celsius centigrade | percent percentage | twice double | half | third | quarter
build construct erect | found establish set_up start create | invent develop discover create | author write writer | painter paint artist | compose composer
inhabitant population people resident | language tongue | currency money | religion faith | flag | border | neighbour neighbor
germany german | france french | spain spanish | italy italian | portugal portuguese | russia russian | china chinese | japan japanese | korea korean | america american
britain british | england english | ireland irish | scotland scottish | wales welsh | canada canadian | mexico mexican | brazil brazilian | argentina argentinian | chile chilean
poland polish | turkey turkish | greece greek | sweden swedish | norway norwegian | denmark danish | finland finnish | netherlands dutch | belgium belgian | switzerland swiss
austria austrian | hungary hungarian | ukraine ukrainian | egypt egyptian | israel israeli | india indian | pakistan pakistani | thailand thai | vietnam vietnamese
australia australian | europe european | africa african | asia asian
use utilize utilise usage | used second-hand secondhand | allowed permitted permissible legal | obligatory required mandatory compulsory | forbidden prohibited banned
purchase buy order shop | sell sale | cheap affordable budget low-cost inexpensive | price cost rate charge fee expense | free complimentary gratis | discount reduction off cheaper
available offered stock | open opening | close closing shut | hours time | address location | cause trigger lead_to | contact reach phone call | contact reach email | in_stock available stock | out_of_stock unavailable | complaint complain | feedback review
difference differ different distinguish compare comparison | similarity similar | relation relationship connection | example instance | reason cause why | result outcome consequence
way method technique approach strategy | tip trick advice hint suggestion recommendation | step stage | tool utility | feature functionality function | option choice alternative
improve raise boost increase better enhance | reduce lower decrease cut minimise minimize | avoid prevent stop | protect secure guard | clean wash | dry | remove eliminate kill
safe harmless ok okay | dangerous harmful risky hazardous unsafe | poisonous toxic | edible | healthy good | unhealthy bad | normal usual typical common | strange weird odd unusual
happen occur take_place | exist be | seem appear look | contain include have hold | consist comprise made | belong own possess | need require want must | allow let permit enable
tell inform notify | show demonstrate display | explain describe clarify define | teach instruct train | learn study understand | know understand realise realize | remember recall
think believe consider | decide choose pick select | plan prepare organise organize arrange | try attempt | fail flop | succeed manage | finish complete end | continue proceed carry_on
"""
