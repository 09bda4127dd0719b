<!DOCTYPE html>
<html lang="en">
<head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{{ config('app.name') }}</title>
    <style>
        body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
        #messages p { padding: .5rem .8rem; border-radius: .5rem; background: #f2f2f2; white-space: pre-wrap; }
        #messages p.user { background: #dcebff; margin-left: 20%; }
        #messages p.tool { font: 13px/1.4 ui-monospace, monospace; background: none; border: 1px dashed #bbb; }
        #messages p.waiting { background: #fff3cd; }
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
    <div id="messages" aria-live="polite"></div>
    <form id="message-form">
        <input name="message" autocomplete="off" aria-label="Message"
               placeholder="Where is order 7? Refund order 7. What is the sum of 2 and 40?" required>
        <button>Send</button>
    </form>
    <script>
        const messageList = document.getElementById('messages');
        const modelSelect = document.getElementById('model');
        const showMessage = (className, text) => {
            const paragraph = document.createElement('p');
            paragraph.className = className;
            paragraph.textContent = text;
            messageList.append(paragraph);
            return paragraph;
        };
        // Sends a request, and shows the events of the response as they arrive. The response is a stream of events, or
        // an error.
        const sendRequest = async (path, body) => {
            const response = await fetch(path, {
                method: 'POST',
                headers: {'Content-Type': 'application/json', 'Accept': 'application/json', 'X-CSRF-TOKEN': @json(csrf_token())},
                body: JSON.stringify(body),
            });
            if (!response.headers.get('Content-Type').startsWith('text/event-stream')) {
                const result = await response.json();
                return response.ok || showMessage('waiting', result.error ?? result.message ?? response.statusText);
            }
            let answerParagraph = null, incompleteEvent = '';
            const handlers = {
                delta: ({text}) => (answerParagraph ??= showMessage('assistant', '')).append(text),
                tool_started: (call) => { answerParagraph = null; showMessage('tool', `${call.name} ${JSON.stringify(call.arguments)}`); },
                tool_finished: ({content}) => showMessage('tool', `→ ${content}`),
                done: ({error, waiting}) => { if (error) showMessage('waiting', error); showWaitingCalls(waiting); },
            };
            const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
            for (let chunk; !(chunk = await reader.read()).done;) {
                const events = (incompleteEvent + chunk.value).split('\n\n');
                incompleteEvent = events.pop();
                for (const event of events) {
                    const [, type, data] = event.match(/^event: (\w+)\ndata: (.*)$/);
                    handlers[type]?.(JSON.parse(data));
                }
            }
        };
        const showWaitingCalls = (waitingCalls) => {
            for (const call of waitingCalls) {
                const paragraph = showMessage('waiting', `May ${call.tool} run with ${JSON.stringify(call.arguments)}? `);
                for (const [label, approve] of [['Yes', true], ['No', false]]) {
                    const button = document.createElement('button');
                    button.textContent = label;
                    button.onclick = () => {
                        paragraph.remove();
                        sendRequest('/approvals/' + call.id, {approve});
                    };
                    paragraph.append(button);
                }
            }
        };
        const showTools = async () => {
            const names = await (await fetch('/tools?model=' + encodeURIComponent(modelSelect.value))).json();
            document.getElementById('tools').textContent = names.join(', ') || 'no tools';
        };
        modelSelect.onchange = showTools;
        showTools();
        showWaitingCalls(@json($waiting));
        document.getElementById('message-form').onsubmit = (event) => {
            event.preventDefault();
            const message = event.target.message.value;
            event.target.reset();
            showMessage('user', message);
            sendRequest('/chat', {model: modelSelect.value, message});
        };
    </script>
</body>
</html>
