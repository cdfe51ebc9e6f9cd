"""The names that other toolkits give to settings of nmt: fairseq, OpenNMT-py, Joey NMT, Marian, Hugging Face."""

from __future__ import annotations

_NAMES = {
    "data.src_lang": "source_lang source_language",
    "data.tgt_lang": "target_lang target_language",
    "data.train": "trainpref train_sets train_file train_files train_src train_data path_src path_tgt",
    "data.valid": "validpref valid_sets validation_file valid_src valid_data dev",
    "data.test": "testpref test_file test_src test_data",
    "tokenizer.path": "vocabs vocab src_vocab tgt_vocab srcdict tgtdict voc_file bpe_codes codes tokenizer_name "
    "tokenizer_file sentencepiece_model src_subword_model tgt_subword_model",
    "tokenizer.vocab_size": "voc_limit voc_size dim_vocabs src_vocab_size tgt_vocab_size num_merges nwordssrc",
    "tokenizer.joint": "joined_dictionary share_vocab",
    "tokenizer.subword_regularization": "bpe_dropout sentencepiece_alphas subword_alpha src_subword_alpha",
    "model.d_model": "embedding_dim emb_size hidden_size hidden_dim rnn_size word_vec_size dim_emb dim_model "
    "encoder_embed_dim decoder_embed_dim model_dim",
    "model.d_ff": "ffn ffn_dim ff_size dim_ff feed_forward intermediate_size transformer_ff transformer_dim_ffn "
    "encoder_ffn_dim decoder_ffn_dim encoder_ffn_embed_dim decoder_ffn_embed_dim",
    "model.num_heads": "heads n_heads nhead transformer_heads num_attention_heads encoder_attention_heads "
    "decoder_attention_heads",
    "model.encoder_layers": "encoder layers num_layers n_layers enc_layers enc_depth num_encoder_layers "
    "num_hidden_layers",
    "model.decoder_layers": "decoder dec_layers dec_depth num_decoder_layers",
    "model.positions": "position_encoding encoder_learned_pos",
    "model.norm_position": "normalize_before encoder_normalize_before layer_norm transformer_preprocess",
    "model.activation": "activation_fn activation_function pos_ffn_activation_fn",
    "model.tied_embeddings": "share_all_embeddings share_embeddings share_decoder_input_output_embed "
    "share_decoder_embeddings tied_softmax tie_word_embeddings tie_embeddings tied_embeddings_all",
    "model.attention_dropout": "attn_dropout transformer_dropout_attention",
    "model.dropout": "transformer_dropout hidden_dropout",
    "model.max_src_len": "max_source_positions max_position_embeddings max_source_length src_seq_length max_length "
    "max_len max_sent_length",
    "model.max_tgt_len": "max_target_positions max_target_length tgt_seq_length",
    "training.device": "use_cuda no_cuda gpu_ranks devices cpu",
    "training.precision": "fp16 bf16 mixed_precision model_dtype",
    "training.batch_tokens": "max_tokens batch_size per_device_train_batch_size mini_batch mini_batch_words",
    "training.tokens_per_update": "update_freq accum_count batch_multiplier optimizer_delay "
    "gradient_accumulation_steps",
    "training.max_updates": "epochs max_epoch max_epochs num_epochs num_train_epochs max_update max_steps train_steps "
    "after after_batches after_epochs updates steps total_steps",
    "training.max_minutes": "stop_time_hours max_hours",
    "training.optimizer": "optim",
    "training.lr": "learning_rate learn_rate",
    "training.warmup_updates": "warmup warmup_steps num_warmup_steps learning_rate_warmup lr_warmup warmup_ratio",
    "training.schedule": "lr_scheduler lr_scheduler_type scheduling scheduler decay_method lr_decay_inv_sqrt",
    "training.betas": "adam_betas adam_beta1 adam_beta2 optimizer_params",
    "training.eps": "adam_eps adam_epsilon",
    "training.clip_norm": "max_grad_norm clip_grad_norm gradient_clipping clip_gradients",
    "training.label_smoothing": "label_smoothing_factor",
    "training.ema": "exponential_smoothing ema_decay average_decay",
    "training.validate_every": "valid_freq validation_freq valid_steps eval_steps validate_interval "
    "validate_interval_updates save_freq save_steps save_interval_updates save_checkpoint_steps",
    "training.log_every": "log_interval logging_freq logging_steps report_every disp_freq",
    "training.early_stopping_patience": "patience early_stopping",
    "training.early_stopping_metric": "best_checkpoint_metric metric_for_best_model valid_metrics",
    "training.keep_checkpoints": "keep_best_ckpts keep_checkpoint keep_last_epochs save_total_limit",
    "training.init_from": "restore_file finetune_from_model load_model train_from pretrained_model model_name_or_path",
    "decoding": "testing generation generate inference",
    "decoding.beam_size": "beam num_beams",
    "decoding.num_hypotheses": "nbest n_best num_return_sequences",
    "decoding.length_penalty": "lenpen normalize beam_alpha",
    "decoding.no_repeat_ngram": "no_repeat_ngram_size block_ngram_repeat",
    "decoding.max_len_factor": "max_len_a max_length_factor",
    "decoding.max_len_offset": "max_len_b",
}
FOREIGN_NAMES = {name: key for key, names in _NAMES.items() for name in names.split()}
"""The key of nmt, such as `training.lr`, by the name elsewhere."""
