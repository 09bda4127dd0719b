<!DOCTYPE html>
<html lang="en">
<head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{{ config('app.name') }}</title>
    <style>
        body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
        #talk p { padding: .5rem .8rem; border-radius: .5rem; background: #f2f2f2; white-space: pre-wrap; }
        #talk p.user { background: #dcebff; margin-left: 20%; }
        #talk p.tool { font: 13px/1.4 ui-monospace, monospace; background: none; border: 1px dashed #bbb; }
        #talk p.waiting { background: #fff3cd; }
        form { display: flex; gap: .5rem; }
        input { flex: 1; padding: .5rem; }
    </style>
</head>
<body>
    <h1>{{ config('app.name') }}</h1>
    <p>
        <label>Model
            <select id="model">
                @foreach ($models as $name)
                    <option @if ($name === $model) selected @endif>{{ $name }}</option>
                @endforeach
            </select>
        </label>
        sees: <span id="tools"></span>
    </p>
    <div id="talk" aria-live="polite"></div>
    <form id="say">
        <input name="message" autocomplete="off" aria-label="Message"
               placeholder="Where is order 7? Refund order 7. What is the sum of 2 and 40?" required>
        <button>Send</button>
    </form>
    <script>
        const talk = document.getElementById('talk');
        const model = document.getElementById('model');
        const show = (kind, text) => {
            const p = document.createElement('p');
            p.className = kind;
            p.textContent = text;
            talk.append(p);
            return p;
        };
        // Shows events as they arrive: a response is a stream of events, or an error.
        const post = async (path, body) => {
            const response = await fetch(path, {
                method: 'POST',
                headers: {'Content-Type': 'application/json', 'Accept': 'application/json', 'X-CSRF-TOKEN': @json(csrf_token())},
                body: JSON.stringify(body),
            });
            if (!response.headers.get('Content-Type').startsWith('text/event-stream')) {
                const answer = await response.json();
                return response.ok || show('waiting', answer.error ?? answer.message ?? response.statusText);
            }
            let words = null, rest = '';
            const onEvent = {
                delta: ({text}) => (words ??= show('assistant', '')).append(text),
                tool_started: (call) => { words = null; show('tool', `${call.name} ${JSON.stringify(call.arguments)}`); },
                tool_finished: ({content}) => show('tool', `→ ${content}`),
                done: ({error, waiting}) => { if (error) show('waiting', error); showWaiting(waiting); },
            };
            const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
            for (let piece; !(piece = await reader.read()).done;) {
                const events = (rest + piece.value).split('\n\n');
                rest = events.pop();
                for (const event of events) {
                    const [, type, data] = event.match(/^event: (\w+)\ndata: (.*)$/);
                    onEvent[type]?.(JSON.parse(data));
                }
            }
        };
        const showWaiting = (waiting) => {
            for (const call of waiting) {
                const p = show('waiting', `May ${call.tool} run with ${JSON.stringify(call.arguments)}? `);
                for (const [label, approve] of [['Yes', true], ['No', false]]) {
                    const button = document.createElement('button');
                    button.textContent = label;
                    button.onclick = () => {
                        p.remove();
                        post('/approvals/' + call.id, {approve});
                    };
                    p.append(button);
                }
            }
        };
        const showTools = async () => {
            const names = await (await fetch('/tools?model=' + encodeURIComponent(model.value))).json();
            document.getElementById('tools').textContent = names.join(', ') || 'no tools';
        };
        model.onchange = showTools;
        showTools();
        showWaiting(@json($waiting));
        document.getElementById('say').onsubmit = (event) => {
            event.preventDefault();
            const message = event.target.message.value;
            event.target.reset();
            show('user', message);
            post('/chat', {model: model.value, message});
        };
    </script>
</body>
</html>
